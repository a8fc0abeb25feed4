"""Session that outlives its connection: it reconnects and takes its locks again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import psycopg
from psycopg import errors

from hypergauge.core.errors import BadRequest, DatabaseUnavailable
from hypergauge.core.system.backoff import Backoff, pauses
from hypergauge.sql.server.database import Connection, Database, StatementFailed

__all__ = ["LONGEST_OUTAGE", "PASSING", "Session", "is_passing"]

P = ParamSpec("P")
T = TypeVar("T")

# Transient errors: a restart, a standby before its promotion, a conflict with another transaction, or a server that
# does not answer.
PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.ReadOnlySqlTransaction,
    DatabaseUnavailable,
)
# Operational errors by their names alone: the server refuses these values each time, such as too long a key of an index.
_LASTING = (StatementFailed, errors.ProgramLimitExceeded)
# Errors that keep the connection and its locks.
_KEPT = (errors.DeadlockDetected, errors.LockNotAvailable, errors.SerializationFailure)
# Longest outage that a schedule outlasts, in seconds.
LONGEST_OUTAGE = 24 * 3600.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
# Outage after which the session notifies the user; a restart takes less.
_REPORT_SECONDS = 5.0
# Wait for locks of the lost connection, which the server may still hold.
_LONGEST_LOCK_PAUSE, _LOCK_SECONDS = 1.0, 10.0


def is_passing(error: Exception) -> bool:
    """Return whether a session repeats work that ends with `error`."""
    return isinstance(error, PASSING) and not isinstance(error, _LASTING)


class Session:
    """Long session with the database, which outlives its connections.

    The session retries interrupted work, so the work must be idempotent.

    Parameters
    ----------
    timeout
        Longest outage of the database, in seconds.
    notify
        Callback for the messages at the start and end of an outage.
    """

    def __init__(
        self, database: Database, timeout: float = LONGEST_OUTAGE, notify: Callable[[str], None] = lambda _: None
    ) -> None:
        self._database, self._timeout, self._notify = database, timeout, notify
        self._connection: Connection | None = None
        self._locks: list[Callable[[Connection], None]] = []
        self._before: tuple[int, object] | None = None  # server process of the last connection, with its start time

    def __enter__(self) -> Self:
        """Connect. A failure of the first connection is raised at once, without retries."""
        self._connection = self._database.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the locks and close the connection; safe to call twice."""
        if self._locks and self._connection is not None:
            # The server releases them only some time after a disconnect, and the next command may be quicker.
            with contextlib.suppress(psycopg.Error):
                self._connection.execute("select pg_advisory_unlock_all()")
        self._drop()

    def open(self) -> None:
        """Open the database. Wait for an external server that is away, as during an outage.

        Raises
        ------
        BenchError
            The server answers and refuses the connection, or the database cannot be opened for another reason.
        """
        outage, refused = _Outage(self._timeout, self._notify), False
        while True:
            try:
                self._database.open()
                break
            except PASSING as error:
                if not self._database.is_away(error):
                    raise
                # A server that has just come back answers as well, so the first refusal does not count.
                answers = isinstance(error, DatabaseUnavailable) and self._database.answers()
                if (refused and answers) or not outage.wait(str(error).strip()):
                    raise self._failed(error) from error
                refused = answers
        outage.end()

    def __call__(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `work` with a connection before its arguments, and retry until it succeeds.

        Raises
        ------
        DatabaseUnavailable
            The database refuses the work, or an outage exceeds the timeout.
        BadRequest
            Another session has taken a lock that was lost with a connection.
        """
        outage = _Outage(self._timeout, self._notify)
        while True:
            try:
                done = work(self._connected(), *args, **kwargs)
            except _LASTING as error:
                raise self._failed(error) from error
            except PASSING as error:
                if not isinstance(error, _KEPT):
                    self._drop()
                if isinstance(error, errors.QueryCanceled) or not outage.wait(str(error).strip()):
                    raise self._failed(error) from error
            except psycopg.Error as error:
                raise self._failed(error) from error
            else:
                outage.end()
                return done

    def lock(self, take: Callable[[Connection], None]) -> None:
        """Take a lock for the life of this session.

        Parameters
        ----------
        take
            Function that takes the lock for the life of a connection, or raises BadRequest if another session has it.
        """
        self(take)
        self._locks.append(take)
        self._before = self(_process)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            connection = self._database.connect()
            try:
                self._take_locks(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            if self._locks:
                self._before = _process(connection)
        return self._connection

    def _take_locks(self, connection: Connection) -> None:
        if self._locks and self._before is not None:
            # A server that missed a disconnect keeps the connection and its locks until a network timeout.
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_start = %s",
                self._before,
            )
        waits = pauses(_FIRST_PAUSE, _LONGEST_LOCK_PAUSE, within=_LOCK_SECONDS)
        for take in self._locks:
            while True:
                try:
                    take(connection)
                    break
                except BadRequest:
                    if (pause := next(waits, None)) is None:
                        raise
                time.sleep(pause)

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _failed(self, error: psycopg.Error | DatabaseUnavailable) -> DatabaseUnavailable:
        return error if isinstance(error, DatabaseUnavailable) else self._database.failure(error, self._connection)


class _Outage:
    """Outage of the database: pauses between attempts, and messages if it lasts."""

    def __init__(self, timeout: float, notify: Callable[[str], None]) -> None:
        self._timeout, self._notify = timeout, notify
        self._began, self._backoff, self._reported = time.monotonic(), Backoff(_FIRST_PAUSE, _LONGEST_PAUSE), False

    def wait(self, reason: str) -> bool:
        """Wait before the next attempt; return whether the timeout allows one."""
        seconds = time.monotonic() - self._began
        if seconds > self._timeout:
            return False
        if not self._reported and seconds > _REPORT_SECONDS:
            self._notify(f"the database is unreachable; waiting for it: {reason}")
            self._reported = True
        time.sleep(self._backoff.failed())
        return True

    def end(self) -> None:
        """Notify the user that the database is back, if its absence was reported."""
        if self._reported:
            self._notify("the database is back")


def _process(connection: Connection) -> tuple[int, object]:
    """Return the server process of a connection, with its start time, since pids are reused."""
    row = connection.execute("select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()").fetchone()
    assert row is not None
    return row[0], row[1]
