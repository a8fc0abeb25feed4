"""Aggregates of samples that retention has deleted, in the form of samples.

A bucket of 10 s becomes up to three samples: its mean, weighted by the measured seconds, and its minimum and maximum,
with zero weight. So mean, total, minimum and maximum stay the same at every level.
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

__all__ = ["DeletedSamples", "as_samples", "deleted_samples"]


@dataclass(frozen=True, slots=True)
class DeletedSamples:
    """Run sets with deleted raw samples, all older than `cutoff`."""

    cutoff: datetime
    runset_ids: tuple[int, ...]

    def condition(self) -> sql.Composed:
        """Return the condition that excludes the samples replaced by buckets."""
        return sql.SQL("(time >= {} or runset_id <> all({}))").format(self.cutoff, list(self.runset_ids))


def deleted_samples(connection: Connection, run_ids: Sequence[str]) -> DeletedSamples | None:
    """Return the deleted raw samples of runs, ``None`` if all are kept."""
    row = connection.execute("select raw_cutoff from retention where isfinite(raw_cutoff)").fetchone()
    if row is None:
        return None
    query = sql.SQL(
        """
        {sources}
        select s.runset_id from sources s
        cross join lateral (
            select count(*) as n from bounded_samples
            where series_id = s.series_id and runset_id = s.runset_id and time >= s.low and last >= s.low
              and time < least(s.high, {cutoff}) and first < least(s.high, {cutoff})) raw
        cross join lateral (
            select sum(n) as n from {buckets}
            where series_id = s.series_id and runset_id = s.runset_id and bucket >= s.low and bucket < least(s.high, {cutoff})) all_
        where s.low < {cutoff} group by s.runset_id having sum(all_.n) > sum(raw.n)
        """
    ).format(sources=sources(run_ids), buckets=_buckets(connection), cutoff=row[0])
    sets = connection.execute(query).fetchall()
    return DeletedSamples(row[0], tuple(runset_id for (runset_id,) in sets)) if sets else None


def as_samples(connection: Connection, run_ids: Sequence[str], what: DeletedSamples) -> Iterator[Columns]:
    """Yield the buckets of `what` as samples, in the form of `hypergauge.sql.queries.stream.stream`."""
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
              and b.bucket >= s.low and b.bucket < least(s.high, {cutoff})
            order by b.bucket offset 0) x
        where s.runset_id = any({sets})
        """
    ).format(sources=sources(run_ids), buckets=_buckets(connection), cutoff=what.cutoff, sets=list(what.runset_ids))
    yield from copied(connection, query)


def _buckets(connection: Connection) -> sql.Identifier:
    # In plain PostgreSQL the aggregates are views, whose bounds on time would use no index.
    stored = inspect(connection).flavour is Flavour.POSTGRESQL
    return sql.Identifier("samples_10s_stored" if stored else "samples_10s")
