"""Continuous aggregates and retention. Aggregates always agree with raw samples.

What each flavour has to do for that stands in ``functions/70_aggregates.FLAVOUR.sql``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from hypergauge.sql.server.database import Connection

__all__ = ["Retention", "keep_raw", "maintain", "refresh", "retention"]


@dataclass(frozen=True, slots=True)
class Retention:
    """For how long raw samples are kept, ``None`` for ever, and the Unix time below which they are gone."""

    keep_raw: timedelta | None
    edge: float


def refresh(connection: Connection) -> None:
    """Bring the aggregates in line with what was written late, as a job of the owner does every 10 s.

    For the owner alone; nothing to do in plain PostgreSQL.
    """
    connection.execute("call refresh()")


def retention(connection: Connection) -> Retention:
    """Return what is set."""
    row = connection.execute("select keep_raw, extract(epoch from edge)::float8 from retention").fetchone()
    assert row is not None
    return Retention(*row)


def keep_raw(connection: Connection, days: int | None) -> None:
    """Keep raw samples for `days`, ``None`` for ever; the aggregates stay in any case. What is gone stays gone."""
    connection.execute("update retention set keep_raw = make_interval(days => %s)", (days,))


def maintain(connection: Connection) -> None:
    """Do now what policies do in time: refresh, compress, and delete the raw samples that are not to be kept."""
    connection.execute("call maintain()")
