"""Aggregates of samples that retention has deleted, in the form of samples.

A bucket of 10 s becomes up to three samples: its mean, which stands for the seconds that were measured, and its least and
its greatest value, which stand for no time. So mean, total, least and greatest are what they were, at every level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from hypergauge.sql.ingest.columns import Columns
from hypergauge.sql.queries.stream import copied, sources
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server.database import Connection

__all__ = ["Gone", "as_samples", "gone"]


@dataclass(frozen=True, slots=True)
class Gone:
    """Run sets that have lost raw samples, all from before `edge`."""

    edge: datetime
    runset_ids: tuple[int, ...]

    def condition(self) -> sql.Composed:
        """Return the condition on samples that leaves out what the buckets stand for."""
        return sql.SQL("(time >= {} or runset_id <> all({}))").format(self.edge, list(self.runset_ids))


def gone(connection: Connection, run_ids: Sequence[str]) -> Gone | None:
    """Return what is gone of the raw samples of runs, where some are."""
    row = connection.execute("select edge from retention where isfinite(edge)").fetchone()
    if row is None:
        return None
    query = sql.SQL(
        """
        {sources}
        select s.runset_id from sources s
        cross join lateral (
            select count(*) as n from samples
            where series_id = s.series_id and runset_id = s.runset_id and time >= s.low and time < least(s.high, {edge})) raw
        cross join lateral (
            select sum(n) as n from {buckets}
            where series_id = s.series_id and runset_id = s.runset_id and bucket >= s.low and bucket < least(s.high, {edge})) all_
        where s.low < {edge} group by s.runset_id having sum(all_.n) > sum(raw.n)
        """
    ).format(sources=sources(run_ids), buckets=_buckets(connection), edge=row[0])
    sets = connection.execute(query).fetchall()
    return Gone(row[0], tuple(runset_id for (runset_id,) in sets)) if sets else None


def as_samples(connection: Connection, run_ids: Sequence[str], what: Gone) -> Iterator[Columns]:
    """Yield the samples that the buckets of `what` become, as `hypergauge.sql.queries.stream.stream` yields others."""
    query = sql.SQL(
        """
        {sources}
        select x.* from sources s cross join lateral (
            -- Within the bucket and the run set, so that they are counted where the bucket was.
            select least(b.bucket + interval '9.999999 s', greatest(b.bucket, s.high - interval '60.000001 s')) as time,
                   s.series_id, s.runset_id, v.value, v.dt
            from {buckets} b cross join lateral (
                select coalesce(b.area / b.seconds::real, 'NaN') as value, coalesce(b.seconds, 10)::real as dt
                where b.seconds is distinct from 0
                union all select b.min, 0 where b.min < b.max or b.seconds = 0
                union all select b.max, 0 where b.min < b.max) v
            where b.series_id = s.series_id and b.runset_id = s.runset_id
              and b.bucket >= s.low and b.bucket < least(s.high, {edge})
            order by b.bucket offset 0) x
        where s.runset_id = any({sets})
        """
    ).format(sources=sources(run_ids), buckets=_buckets(connection), edge=what.edge, sets=list(what.runset_ids))
    yield from copied(connection, query)


def _buckets(connection: Connection) -> sql.Identifier:
    # Where the aggregates are views, their rows' bounds on time would reach no index.
    stored = inspect(connection).flavour is Flavour.POSTGRESQL
    return sql.Identifier("samples_10s_stored" if stored else "samples_10s")
