"""Replica for queries: its fitness, and its lag."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

import psycopg

from hypergauge.core.errors import BadRequest
from hypergauge.sql.schema.migrate import MigrationFailed, is_current

__all__ = [
    "AskingAgain",
    "Standing",
    "check",
    "conflicts",
    "has_replayed",
    "is_late",
    "may_write",
    "notice",
    "standing",
    "wal_position",
]

# What a replica cancels a statement with that is in the way of what it has to replay.
conflicts = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
# Seconds before it is asked again. While what was in the way is replayed, the next one may be on its way.
_PAUSES = (0.2, 1.0, 3.0)
# Below that nobody waits: the exporters are read once a second, and what they say is written a second later.
_SECONDS = 5.0
# A transaction after a long rest is late for a moment, and by the whole rest.
_SECOND_LOOK_SECONDS = 0.2
_IN_SECONDS = 120


class AskingAgain(psycopg.Cursor[Any]):
    """A cursor that repeats a question which a replica has cancelled; one within a transaction is its caller's to repeat."""

    def execute(self, *question: Any, **options: Any) -> Self:
        """Execute it, up to four times."""
        for pause in _PAUSES:
            try:
                return super().execute(*question, **options)
            except conflicts:
                if self.connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
                    raise
            time.sleep(pause)
        return super().execute(*question, **options)


@dataclass(frozen=True, slots=True)
class Standing:
    """Server for reading.

    Attributes
    ----------
    standby
        Whether it follows another server.
    following
        Whether it is connected to that one.
    behind
        How many seconds old is what it shows; ``None`` where it follows none.
    system
        What a server and its replicas have in common, and nobody else.
    """

    standby: bool
    following: bool
    behind: float | None
    system: int

    def describe(self) -> str:
        """Return it in words."""
        if self.behind is None:
            return "not a replica"
        lost = "" if self.following else ", and has lost its primary"
        return f"a replica, {_words(self.behind)} behind{lost}"


def standing(connection: psycopg.Connection) -> Standing:
    """Return what the server is, and how far it is behind."""
    row = connection.execute(
        """
        select pg_is_in_recovery(), exists (select from pg_stat_wal_receiver),
               (select system_identifier from pg_control_system())
        """
    ).fetchone()
    assert row is not None
    standby, following, system = row
    return Standing(standby, following, _behind(connection), system)


def notice(connection: psycopg.Connection) -> str | None:
    """Return what to know where this is a replica that is behind, ``None`` else."""
    behind = _behind(connection)
    if behind is None or behind <= _SECONDS:
        return None
    return f"the replica is {_words(behind)} behind: what goes on here may have ended since"


def is_late(behind: float | None) -> bool:
    """Return whether so many seconds are more than nobody needs to know of."""
    return behind is not None and behind > _SECONDS


def check(connection: psycopg.Connection) -> None:
    """See that ``BENCH_READ_DSN`` leads to a database of this release, as somebody who may read it and no more.

    Raises
    ------
    BadRequest
        It is another database, or its user may write, or not even read.
    MigrationFailed
        Its schema is that of another release.
    """
    user, name = connection.info.user, connection.info.dbname
    try:
        if connection.execute("select to_regclass('bench.migrations')").fetchone() == (None,):
            raise BadRequest(f"BENCH_READ_DSN: the database {name} holds nothing of hypergauge; is it another one?")
        current = is_current(connection)
        writes = may_write(connection, "current_user")
    except psycopg.errors.InsufficientPrivilege as error:
        raise BadRequest(
            f"BENCH_READ_DSN logs in as {user}, who may not read ({error.diag.message_primary}): "
            f"grant bench_reader to {user}"
        ) from error
    if writes:
        raise BadRequest(
            f"BENCH_READ_DSN logs in as {user}, who may write: give it bench_reader, who may not, or add "
            "options=-crole=bench_reader to it"
        )
    if not current:
        raise MigrationFailed(
            "the schema that BENCH_READ_DSN shows is older than this release: run `bench db migrate`, with BENCH_DSN; "
            "a replica has it when it has caught up"
        )


def may_write(connection: psycopg.Connection, who: str) -> bool:
    """Return whether the ``session_user``, or the ``current_user``, may write."""
    row = connection.execute(
        f"select has_table_privilege({who}, 'bench.runs', 'insert, update, delete')".encode()
    ).fetchone()
    return row != (False,)


def wal_position(connection: psycopg.Connection) -> str:
    """Return how far the primary has written."""
    row = connection.execute("select pg_current_wal_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


def has_replayed(connection: psycopg.Connection, position: str) -> bool:
    """Return whether a replica shows all that was written up to a position."""
    row = connection.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", (position,)).fetchone()
    return row == (True,)


def _behind(connection: psycopg.Connection) -> float | None:
    found = _look(connection)
    if is_late(found):
        time.sleep(_SECOND_LOOK_SECONDS)
        found = _look(connection)
    return found


def _look(connection: psycopg.Connection) -> float | None:
    row = connection.execute("select replica_behind()").fetchone()
    return None if row is None else row[0]


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _IN_SECONDS else str(timedelta(seconds=round(seconds)))
