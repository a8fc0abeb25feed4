"""Content of a trace: spans, samples and GPU errors of a run, in microseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

__all__ = ["Figure", "TracedRun", "TracedSpan", "Xid", "counters_of", "spans_of", "traced_runs", "xids_of"]

T = TypeVar("T")

# Rows that are in memory at a time: a training has millions of steps.
_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A run on the time of its workload's pass: microseconds since that began. One that goes on ends now."""

    run_id: str
    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """A span; `end` is ``None`` where the run ended within it."""

    pid: int | None
    thread: str | None
    name: str
    kind: str
    step: int | None
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Figure:
    """Value of a quantity from `start` on, in the canonical unit; software metrics have no scope and no unit."""

    quantity: str
    unit: str
    scope: str
    device: str
    start: int
    value: float


@dataclass(frozen=True, slots=True)
class Xid:
    """An XID error of a GPU of a run."""

    at: int
    number: str
    device: str


def traced_runs(connection: Connection, run_ids: Sequence[str]) -> dict[str, TracedRun]:
    """Return those of the runs that have begun, by id."""
    with connection.cursor(row_factory=class_row(TracedRun)) as cursor:
        rows = cursor.execute(
            """
            select r.run_id, run_label(w, r) as label, microseconds(r.started_at - pass_start(run_id)) as start,
                   microseconds(coalesce(r.ended_at, now()) - pass_start(run_id)) as end
            from runs r join workloads w using (workload_id)
            where r.run_id = any(%s) and r.started_at is not null
            """,
            (list(run_ids),),
        ).fetchall()
    return {row.run_id: row for row in rows}


def spans_of(connection: Connection, run_id: str) -> Iterator[TracedSpan]:
    """Yield the spans of a run by process and thread, in the order of time and with parents before their children."""
    return _stream(
        connection,
        TracedSpan,
        """
        select s.pid, s.thread, s.name, s.kind, s.step, microseconds(s.started_at - p.zero) as start,
               microseconds(s.ended_at - p.zero) as end
        from spans s cross join (select pass_start(%(run)s) as zero) p
        where s.run_id = %(run)s
        -- Of two that take the same time the outer one was given the lower number.
        order by s.pid, s.thread, s.started_at, s.ended_at desc nulls first, length(s.span_id), s.span_id
        """,
        {"run": run_id},
    )


def counters_of(connection: Connection, run_id: str, quantities: Sequence[str] | None) -> Iterator[Figure]:
    """Yield a run's samples by quantity and device, each from the scope and the source that a chart takes.

    A sample counts from the beginning of the time that it stands for. Without `quantities` these are all that the run
    has more narrowly than for its host, and the software metrics.
    """
    yield from _stream(
        connection,
        Figure,
        """
        with measured as (  -- as in `compute_summary`
            select quantity, scope, metric,
                   covers(sum(seconds), max(sum(seconds)) over (partition by quantity, scope)) as covering
            from run_summary where run_id = %(run)s and metric is not null group by quantity, scope, metric
        ), candidates as (
            select s.series_id, s.quantity, coalesce(m.unit, '') as unit, rs.scope, coalesce(s.device, '') as device,
                   coalesce(m.scale, 1) as scale, rs.runset_id, rs.started_at, rs.ended_at,
                   case when counts_once(m.board, s.metric, s.device, s.labels) then 'max' else coalesce(m.combine, 'sum') end as combine,
                   dense_rank() over (partition by s.quantity order by scope_width(rs.scope, a.alone)) as width,
                   dense_rank() over (partition by s.quantity, rs.scope, case when s.quantity like 'gpu\\_%%' then s.device end
                                      order by coalesce(x.covering, false) desc, coalesce(m.preference, 1), s.metric)
                   as rank
            from (select mostly_alone(%(run)s) as alone) a
            cross join run_sets rs join series s using (place_id) left join metrics m using (metric_id)
            left join measured x on (x.quantity, x.scope, x.metric) = (s.quantity, rs.scope, s.metric)
            where rs.run_id = %(run)s
              and s.series_id not in (select series_id from repeats_of(array[%(run)s], %(quantities)s))
              and case when %(quantities)s::text[] is null then s.quantity not in ('start_time', 'end_time')
                       else s.quantity = any(%(quantities)s) end
        ), chosen as (
            select * from candidates
            where width = 1 and rank = 1 and (scope <> 'host' or %(quantities)s::text[] is not null)
        )
        select quantity, unit, scope, device,
               greatest(microseconds(time - max(dt) * interval '1 s' - p.zero),
                        microseconds(r.started_at - p.zero)) as start,
               case combine when 'sum' then sum(value * scale) when 'max' then max(value * scale)
                            else avg(value * scale) end as value
        from chosen
        -- Bounds on time only narrow the search; the tag decides. A minute is a scrape's longest interval.
        cross join lateral (
            select time, value, dt::float8 from samples
            where series_id = chosen.series_id and runset_id = chosen.runset_id
              and time >= chosen.started_at - interval '1 min'
              and time < coalesce(chosen.ended_at, 'infinity') + interval '1 min' and value is not null
            offset 0) x
        join runs r on r.run_id = %(run)s cross join (select pass_start(%(run)s) as zero) p
        group by quantity, unit, scope, device, combine, time, p.zero, r.started_at
        order by quantity, device, time
        """,
        {"run": run_id, "quantities": None if quantities is None else list(quantities)},
    )
    if quantities is None:
        yield from _stream(
            connection,
            Figure,
            """
            select key as quantity, '' as unit, '' as scope, '' as device,
                   microseconds(s.time - p.zero) as start, value
            from software_metrics s cross join (select pass_start(%(run)s) as zero) p
            where run_id = %(run)s and value is not null order by key, s.time, s.step
            """,
            {"run": run_id},
        )


def xids_of(connection: Connection, run_id: str) -> list[Xid]:
    """Return the XID errors of a run's GPUs, in the order of time."""
    return list(
        _stream(
            connection,
            Xid,
            """
            select distinct microseconds(x.time - p.zero) as at, coalesce(s.labels ->> 'xid', '?') as number,
                   coalesce(s.device, '') as device
            from run_sets rs join series s using (place_id)
            cross join (select pass_start(%(run)s) as zero) p
            cross join lateral (
                select time from samples
                where series_id = s.series_id and runset_id = rs.runset_id and value > 0
                  and time >= rs.started_at - interval '1 min'
                  and time < coalesce(rs.ended_at, 'infinity') + interval '1 min'
                offset 0) x
            where rs.run_id = %(run)s and s.quantity = 'gpu_xid_errors' order by at
            """,
            {"run": run_id},
        )
    )


def _stream(connection: Connection, kind: type[T], statement: str, values: dict[str, object]) -> Iterator[T]:
    with connection.transaction(), connection.cursor(name="trace", row_factory=class_row(kind)) as cursor:
        cursor.itersize = _ROWS
        cursor.execute(statement.encode(), values)
        yield from cursor
