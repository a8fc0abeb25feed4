"""Continuous aggregates and retention. Aggregates always agree with raw samples.

``functions/bench_internal/70_aggregates.FLAVOUR.sql`` implements both for each flavour.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from hypergauge.sql.server.database import Connection

__all__ = ["Retention", "keep_raw", "maintain", "pack", "refresh", "retention"]


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of raw samples: their lifetime, ``None`` for ever, and the Unix time below which they are deleted."""

    keep_raw: timedelta | None
    raw_cutoff: float


def refresh(connection: Connection) -> None:
    """Update the aggregates with late samples, as the owner's job does every 10 s.

    Only the owner may call it. It has no effect in plain PostgreSQL.
    """
    connection.execute("call refresh()")


def pack(connection: Connection, until: datetime, *, rest: float = 0) -> None:
    """Pack the samples of hours that closed before `until`. No effect in TimescaleDB.

    `connection` must be in autocommit mode. After each transaction it sleeps `rest` times as long as that took. Late samples of
    packed hours are packed by a later call.
    """
    connection.execute("call pack(%s, p_rest => %s)", (until, rest))


def retention(connection: Connection) -> Retention:
    """Return the current retention."""
    row = connection.execute("select keep_raw, extract(epoch from raw_cutoff)::float8 from retention").fetchone()
    assert row is not None
    return Retention(*row)


def keep_raw(connection: Connection, days: int | None) -> None:
    """Keep raw samples for `days`, ``None`` for ever. The aggregates always stay; deleted samples do not return."""
    connection.execute("update retention set keep_raw = make_interval(days => %s)", (days,))


def maintain(connection: Connection) -> None:
    """Run the scheduled maintenance now: refresh, compression, and deletion of expired raw samples."""
    connection.execute("call maintain()")
