"""Watch over the sessions of the database: waits for locks are counted and logged, and what readers leave open is ended."""

from __future__ import annotations

import logging
from datetime import datetime

import psycopg

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.lock_waits import LONGEST_WAIT_SECONDS, lock_waits
from hypergauge.sql.server.reader import cancel_long_reads

__all__ = ["SESSIONS_SECONDS", "SessionWatch"]

_log = logging.getLogger(__name__)

# Interval of the watch, which lists all connections.
SESSIONS_SECONDS = 5.0
# Readers may lift their 30 s; an export does, and copies a table for some minutes.
_LONGEST_READ_SECONDS = 300.0


class SessionWatch:
    """Work of a periodic thread, on a connection of its own: the writer may be what waits.

    Parameters
    ----------
    longest_wait, longest_read
        Seconds from which on a wait is logged, and a read is ended.
    """

    def __init__(
        self, database: Database, metrics: CollectorMetrics, *, longest_wait: float = LONGEST_WAIT_SECONDS,
        longest_read: float = _LONGEST_READ_SECONDS,
    ) -> None:  # fmt: skip
        self._database, self._metrics = database, metrics
        self._longest_wait, self._longest_read = longest_wait, longest_read
        self._connection: Connection | None = None
        self._logged: set[tuple[int, datetime]] = set()

    def __call__(self) -> None:
        """Check the sessions once."""
        if self._connection is None:
            self._connection = self._database.connect()
        try:
            self._check(self._connection)
        except psycopg.Error as error:
            failure = self._database.failure(error, self._connection)
            self.close()
            raise failure from error

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _check(self, connection: Connection) -> None:
        waits = {(wait.pid, wait.since): wait for wait in lock_waits(connection, self._longest_wait)}
        for key in waits.keys() - self._logged:
            self._metrics.lock_waits.inc()
            _log.warning("%s", waits[key].describe())
        self._logged = set(waits)
        if ended := cancel_long_reads(connection, self._longest_read):
            _log.warning("queries and sessions of readers ended after %g s: %d", self._longest_read, ended)
