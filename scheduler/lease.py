"""The lease of a run: while it is renewed, somebody supervises the run."""

from __future__ import annotations

import contextlib
import threading

from bench.errors import BenchError
from sql import runs
from sql.database import Database, lost

__all__ = ["Lease"]


class Lease(threading.Thread):
    """Renews the lease of a run, in a thread of its own: a database that hangs must not keep us from the run."""

    def __init__(self, database: Database, run_id: str, root_pid: int) -> None:
        super().__init__(name="lease", daemon=True)
        self._database, self._run_id, self._root_pid = database, run_id, root_pid
        self._ended = threading.Event()

    def run(self) -> None:
        """Renew it three times a lease, until `end`."""
        lease = self._database.settings.lease
        while not self._ended.is_set():
            with contextlib.suppress(BenchError, *lost), self._database.connect() as connection:
                while not self._ended.is_set():
                    runs.renew_lease(connection, self._run_id, self._root_pid, lease)
                    self._ended.wait(lease / 3)
            self._ended.wait(lease / 3)

    def end(self) -> None:
        """Renew it no more."""
        self._ended.set()
