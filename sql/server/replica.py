"""Replica for queries: check of its configuration, and its lag."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

import psycopg

from hypergauge.core.errors import BadRequest
from hypergauge.core.system.backoff import pauses
from hypergauge.sql.schema.migrate import MigrationFailed, is_current
from hypergauge.sql.server.rows import first_value, value

__all__ = [
    "ReplicationState",
    "RetryingCursor",
    "check",
    "conflicts",
    "has_replayed",
    "is_late",
    "may_write",
    "notice",
    "replication",
    "wal_position",
]

# Errors of a replica that cancels a statement in conflict with replay.
conflicts = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
# Pauses before retries, 4.6 s in all. During the replay of one conflict, the next may already arrive.
_FIRST_PAUSE, _LONGEST_PAUSE, _PAUSES = 0.2, 1.6, 4.0
# A smaller lag is normal: the collector scrapes once a second, and writes a second later.
_SECONDS = 5.0
# After a long idle time the first transaction seems late by the whole idle time, for a moment.
_SECOND_LOOK_SECONDS = 0.2
_IN_SECONDS = 120


class RetryingCursor(psycopg.Cursor[Any]):
    """Cursor that retries a query cancelled by a replica. Within a transaction the caller must retry."""

    def execute(self, *query: Any, **options: Any) -> Self:
        """Execute a query, at most six times."""
        for pause in pauses(_FIRST_PAUSE, _LONGEST_PAUSE, within=_PAUSES):
            try:
                return super().execute(*query, **options)
            except conflicts:
                if self.connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
                    raise
            time.sleep(pause)
        return super().execute(*query, **options)


@dataclass(frozen=True, slots=True)
class ReplicationState:
    """Replication state of the server for reading.

    Attributes
    ----------
    standby
        Whether the server is a replica.
    following
        Whether the replica is connected to its primary.
    behind
        Lag of the replica in seconds; ``None`` for a server that is not a replica.
    system
        System identifier, the same on a server and its replicas only.
    """

    standby: bool
    following: bool
    behind: float | None
    system: int

    def describe(self) -> str:
        """Return a short description."""
        if self.behind is None:
            return "not a replica"
        lost = "" if self.following else ", and has lost its primary"
        return f"a replica, {_words(self.behind)} behind{lost}"


def replication(connection: psycopg.Connection) -> ReplicationState:
    """Return the replication state of the server."""
    row = connection.execute(
        """
        select pg_is_in_recovery(), exists (select from pg_stat_wal_receiver),
               (select system_identifier from pg_control_system())
        """
    ).fetchone()
    assert row is not None
    standby, following, system = row
    return ReplicationState(standby, following, _behind(connection), system)


def notice(connection: psycopg.Connection) -> str | None:
    """Return the notice on this replica's lag, ``None`` without a lag to report."""
    behind = _behind(connection)
    if behind is None or behind <= _SECONDS:
        return None
    statement = "select notice_text('replica_behind', '{}', jsonb_build_object('seconds', %s::float8))"
    return value(connection, str, statement, [behind])


def is_late(behind: float | None) -> bool:
    """Return whether a lag in seconds is large enough to report."""
    return behind is not None and behind > _SECONDS


def check(connection: psycopg.Connection) -> None:
    """Check that ``BENCH_READ_DSN`` leads to a database of this release, with a read-only user.

    Raises
    ------
    BadRequest
        The database has no schema of hypergauge, or the user may write or may not read.
    MigrationFailed
        The schema belongs to another release.
    """
    user, name = connection.info.user, connection.info.dbname
    try:
        if connection.execute("select to_regclass('bench_internal.migrations')").fetchone() == (None,):
            raise BadRequest(
                f"BENCH_READ_DSN: the database {name} has no tables of hypergauge; is it the right database?"
            )
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
            "the schema of BENCH_READ_DSN is older than this release: run `bench db migrate` with BENCH_DSN, and wait for "
            "the replica"
        )


def may_write(connection: psycopg.Connection, who: str) -> bool:
    """Return whether the ``session_user`` or ``current_user`` may write."""
    row = connection.execute(
        f"select has_table_privilege({who}, 'bench.runs', 'insert, update, delete')".encode()
    ).fetchone()
    return row != (False,)


def wal_position(connection: psycopg.Connection) -> str:
    """Return the current WAL position of the primary."""
    return value(connection, str, "select pg_current_wal_lsn()::text")


def has_replayed(connection: psycopg.Connection, position: str) -> bool:
    """Return whether a replica has replayed the WAL up to a position."""
    return first_value(connection, bool, "select pg_last_wal_replay_lsn() >= %s::pg_lsn", (position,)) is True


def _behind(connection: psycopg.Connection) -> float | None:
    found = _look(connection)
    if is_late(found):
        time.sleep(_SECOND_LOOK_SECONDS)
        found = _look(connection)
    return found


def _look(connection: psycopg.Connection) -> float | None:
    return first_value(connection, float, "select replica_behind()")


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _IN_SECONDS else str(timedelta(seconds=round(seconds)))
