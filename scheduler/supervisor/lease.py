"""Lease of a run in the database. A run with a valid lease has a supervisor."""

from __future__ import annotations

from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["Lease"]


class Lease:
    """Background renewal of a run's lease, three times per lease duration. A slow database does not block the run."""

    def __init__(self, database: Database, run_id: str, root_pid: int) -> None:
        self._session = Session(database, timeout=0)
        self._run_id, self._root_pid, self._lease = run_id, root_pid, database.settings.lease
        self._renewals = Periodic(f"lease of run {run_id[:8]}", self._renew, self._lease / 3, at_once=True)

    def start(self) -> None:
        """Start the renewal."""
        self._renewals.start()

    def end(self) -> None:
        """Stop the renewal, without waiting for one in progress."""
        if self._renewals.end(timeout=0):
            self._session.close()

    def _renew(self) -> None:
        self._session(runs.renew_lease, self._run_id, self._root_pid, self._lease)
