"""Lease of a run. While it is renewed, the run has a supervisor."""

from __future__ import annotations

from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["Lease"]


class Lease:
    """Renews the lease of a run three times a lease, in the background: a database that hangs must not keep us from the run."""

    def __init__(self, database: Database, run_id: str, root_pid: int) -> None:
        self._session = Session(database, patience=0)
        self._run_id, self._root_pid, self._lease = run_id, root_pid, database.settings.lease
        self._renewals = Periodic(f"lease of run {run_id[:8]}", self._renew, self._lease / 3, at_once=True)

    def start(self) -> None:
        """Renew it from now on."""
        self._renewals.start()

    def end(self) -> None:
        """Renew it no more; what is under way is not waited for."""
        if self._renewals.end(patience=0):
            self._session.close()

    def _renew(self) -> None:
        self._session(runs.renew_lease, self._run_id, self._root_pid, self._lease)
