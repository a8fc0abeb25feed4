"""Aggregates and raw samples agree, always; and raw samples are kept for as long as it is said.

What each flavour has to do for that stands in ``functions/70_aggregates.FLAVOUR.sql``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sql.database import Connection
from sql.flavour import Flavour, inspect

__all__ = ["Retention", "failing_jobs", "keep_raw", "maintain", "refresh", "retention"]


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


def failing_jobs(connection: Connection) -> list[str]:
    """Return a line for each background job of ours that failed twice in a row; without jobs all is right, but slow.

    Once alone says little: a chunk that `maintain` had in its hands is left to the next turn.
    """
    if inspect(connection).flavour is not Flavour.TIMESCALEDB:
        return []
    rows = connection.execute(
        """
        select distinct on (j.job_id) j.proc_name, j.job_id, e.err_message
        from timescaledb_information.jobs j join _timescaledb_internal.bgw_job_stat s using (job_id)
        left join timescaledb_information.job_errors e using (job_id)
        where (j.proc_schema = 'bench' or j.hypertable_schema = 'bench') and s.consecutive_failures > 1
        order by j.job_id, e.finish_time desc nulls last
        """
    ).fetchall()
    return [f"{name} (job {job}): {error or 'see the log of the server'}" for name, job, error in rows]


def maintain(connection: Connection) -> None:
    """Do now what policies do in time: refresh, compress, and delete the raw samples that are not to be kept."""
    connection.execute("call maintain()")
