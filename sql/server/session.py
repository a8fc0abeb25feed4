"""Session that outlives its connection. It reconnects, and takes its locks again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import psycopg
from psycopg import errors

from hypergauge.core.errors import BadRequest, DatabaseUnavailable
from hypergauge.core.system.backoff import Backoff
from hypergauge.sql.server.database import Connection, Database, StatementFailed

__all__ = ["PASSING", "Session"]

P = ParamSpec("P")
T = TypeVar("T")

# What a database may answer today and not tomorrow: it was restarted or is about to be, it is a standby that is not promoted yet,
# somebody was in the way, or nobody answers.
PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.ReadOnlySqlTransaction,
    DatabaseUnavailable,
)
# Of these the connection is as good as before, and so are its locks.
_KEPT = (errors.DeadlockDetected, errors.LockNotAvailable, errors.SerializationFailure)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
# From then on it is said that the database is away: a restart takes less.
_SAID_SECONDS = 5.0
# For locks of the connection before, which its server may not have missed yet.
_LOCK_SECONDS = 10.0


class Session:
    """Session of hours with the database, which outlives its connections.

    Work that is interrupted is done again, so it has to be such that twice is harmless.

    Parameters
    ----------
    patience
        Seconds for which the database may be away.
    say
        Is told when it is, and when it is back.
    """

    def __init__(
        self, database: Database, patience: float = 24 * 3600.0, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._database, self._patience, self._say = database, patience, say
        self._connection: Connection | None = None
        self._locks: list[Callable[[Connection], None]] = []
        self._before: tuple[int, object] | None = None  # the connection that was lost: its process, and when that began

    def __enter__(self) -> Self:
        """Connect; who never was connected is told at once why that cannot be."""
        self._connection = self._database.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection, and so of the locks; safe to call twice."""
        self._drop()

    def __call__(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do `work` with a connection in front of its arguments, again and again until the database has done it.

        Raises
        ------
        DatabaseUnavailable
            It refuses the work, or was away for too long.
        BadRequest
            A lock that was lost with a connection is somebody else's by now.
        """
        began, backoff, said = time.monotonic(), Backoff(_FIRST_PAUSE, _LONGEST_PAUSE), False
        while True:
            try:
                done = work(self._connected(), *args, **kwargs)
            except StatementFailed:
                raise
            except PASSING as error:
                if not isinstance(error, _KEPT):
                    self._drop()
                away = time.monotonic() - began
                if isinstance(error, errors.QueryCanceled) or away > self._patience:
                    raise self._failed(error) from error
                if not said and away > _SAID_SECONDS:
                    self._say(f"the database is away, and is waited for: {str(error).strip()}")
                    said = True
                time.sleep(backoff.failed())
            except psycopg.Error as error:
                raise self._failed(error) from error
            else:
                if said:
                    self._say("the database is back")
                return done

    def lock(self, take: Callable[[Connection], None]) -> None:
        """Take a lock that lasts for as long as this session.

        Parameters
        ----------
        take
            Takes it for the life of a connection, or raises a BadRequest where somebody else has it.
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
            # A server that was not told keeps a connection, and its locks, for as long as its network allows.
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_start = %s",
                self._before,
            )
        deadline = time.monotonic() + _LOCK_SECONDS
        for take in self._locks:
            while True:
                try:
                    take(connection)
                    break
                except BadRequest:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(_FIRST_PAUSE)

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _failed(self, error: psycopg.Error | DatabaseUnavailable) -> DatabaseUnavailable:
        return error if isinstance(error, DatabaseUnavailable) else self._database.failure(error, self._connection)


def _process(connection: Connection) -> tuple[int, object]:
    """Return the server's process of a connection, and when it began: its number is given away again."""
    row = connection.execute("select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()").fetchone()
    assert row is not None
    return row[0], row[1]
