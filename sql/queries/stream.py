"""Raw samples of runs, streamed source by source.

A source is a series within one run set: the joins of `run_samples` without the samples. Each source is read by index,
between literal times. These exceed the run set by a scrape's longest interval; the tag decides.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import class_row

from hypergauge.sql.ingest.columns import Columns, decoded
from hypergauge.sql.server.database import Connection

__all__ = ["ALL", "AT_ONCE", "Source", "copied", "expected", "inside", "sources", "sources_of", "stream"]

# Samples per block: about 12 MiB in arrays, with negligible overhead per block.
AT_ONCE = 250_000

ALL = sql.SQL("true")


@dataclass(frozen=True, slots=True)
class Source:
    """Source of samples, with the columns of ``run_samples``; `scale` converts to the canonical unit."""

    series_id: int
    runset_id: int
    quantity: str
    metric: str
    unit: str
    scope: str
    host: str
    device: str | None
    scale: float


def sources_of(connection: Connection, run_id: str, quantities: Sequence[str] | None = None) -> list[Source]:
    """Return the sources of a run, by quantity, metric and device."""
    with connection.cursor(row_factory=class_row(Source)) as cursor:
        return cursor.execute(
            """
            select series_id, runset_id, s.quantity, s.metric, coalesce(m.unit, '') as unit, rs.scope, s.host, s.device,
                   coalesce(m.scale, 1) as scale
            from run_sets rs join series s using (place_id) left join metrics m using (metric_id)
            where rs.run_id = %(run)s and (%(quantities)s::text[] is null or s.quantity = any(%(quantities)s))
            order by s.quantity, s.metric, s.device, series_id, rs.started_at
            """,
            {"run": run_id, "quantities": None if quantities is None else list(quantities)},
        ).fetchall()


def stream(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str] | None = None,
    condition: sql.Composable = ALL,
) -> Generator[Columns]:  # fmt: skip
    """Yield the samples of runs in blocks of `AT_ONCE`. Samples shared by several runs come once.

    The order is that of `sources_of`, then time. `condition` filters samples and must be literal. The caller must
    close a generator that is not exhausted: the connection is busy until then.
    """
    query = sql.SQL(
        """
        {sources}
        select x.* from sources s cross join lateral (
            select time, series_id, runset_id, coalesce(value, 'NaN') as value, dt from bounded_samples
            where series_id = s.series_id and runset_id = s.runset_id and time >= s.low and last >= s.low
              and time < s.high and first < s.high and {condition}
            order by time offset 0) x
        """
    ).format(sources=sources(run_ids, quantities), condition=condition)
    yield from copied(connection, query)


def inside(times: str) -> sql.Composed:
    """Return the condition of samples in the text of a ``tstzmultirange``. The bounds narrow the search."""
    return sql.SQL(
        """(time >= coalesce(lower({times}::tstzmultirange), '-infinity') and last >= coalesce(lower({times}::tstzmultirange), '-infinity')
            and time < coalesce(upper({times}::tstzmultirange), 'infinity') and first < coalesce(upper({times}::tstzmultirange), 'infinity')
            and {times}::tstzmultirange @> time)"""
    ).format(times=times)


def copied(connection: Connection, query: sql.Composable) -> Iterator[Columns]:
    """Yield the result of a query with the columns of samples; a null value is NaN."""
    with connection.cursor().copy(sql.SQL("copy ({}) to stdout (format binary)").format(query)) as copy:
        yield from decoded(copy, AT_ONCE)


def expected(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str] | None = None, *, each: bool = False
) -> int:
    """Return an estimate of the number of samples of runs: each source's duration divided by its interval.

    An exact count would take as long as reading the samples. Gaps in a source make the estimate too high. Samples
    shared by several runs count once, or with `each` once per run.
    """
    query = sql.SQL(
        """
        {sources}
        select coalesce(sum(greatest(1, extract(epoch from least(s.high, now()) - s.low - interval '2 min') / x.dt) * {times}), 0)::bigint
        from sources s cross join lateral (
            -- The first may stand for less, since the run set began.
            select max(dt) as dt from (
                select dt from bounded_samples
                where series_id = s.series_id and runset_id = s.runset_id and time >= s.low and last >= s.low
                  and time < s.high and first < s.high and dt > 0
                limit 3) few having count(*) > 0) x
        """
    ).format(sources=sources(run_ids, quantities), times=sql.SQL("s.runs" if each else "1"))
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def sources(run_ids: Sequence[str], quantities: Sequence[str] | None = None) -> sql.Composed:
    """Return the common table expression of the runs' sources, with literals, since COPY takes no parameters."""
    wanted = ALL if quantities is None else sql.SQL("s.quantity = any({})").format(list(quantities))
    return sql.SQL(
        """
        with sources as materialized (
            select s.series_id, rs.runset_id, count(*) as runs, min(rs.started_at) - interval '1 min' as low,
                   coalesce(max(rs.ended_at), 'infinity') + interval '1 min' as high
            from run_sets rs join series s using (place_id)
            where rs.run_id = any({runs}) and {wanted}
            group by s.series_id, rs.runset_id, s.quantity, s.metric, s.device
            order by s.quantity, s.metric, s.device, s.series_id, min(rs.started_at))
        """
    ).format(runs=list(run_ids), wanted=wanted)
