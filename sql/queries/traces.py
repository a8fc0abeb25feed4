"""Content of a trace: spans, samples and GPU errors of a run, in microseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

__all__ = ["CounterValue", "TracedRun", "TracedSpan", "Xid", "counters_of", "spans_of", "traced_runs", "xids_of"]

T = TypeVar("T")

# Rows in memory at a time: a training has millions of steps.
_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class TracedRun:
    """Run in a trace; times are microseconds since the start of its workload's pass. A running run ends now."""

    run_id: str
    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """Span; `end` is ``None`` if the run ended within the span."""

    pid: int | None
    thread: str | None
    name: str
    kind: str
    step: int | None
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class CounterValue:
    """Value of a quantity from `start` on, in the canonical unit; software metrics have no scope and no unit."""

    quantity: str
    unit: str
    scope: str
    device: str
    start: int
    value: float


@dataclass(frozen=True, slots=True)
class Xid:
    """XID error of a run's GPU."""

    at: int
    number: str
    device: str


def traced_runs(connection: Connection, run_ids: Sequence[str]) -> dict[str, TracedRun]:
    """Return the started runs by id."""
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


def spans_of(connection: Connection, run_id: str, times: str | None = None) -> Iterator[TracedSpan]:
    """Yield the spans of a run by process and thread, in order of time, parents before children.

    With the text of a ``tstzmultirange``, yield those that overlap it.
    """
    return _stream(
        connection,
        TracedSpan,
        """
        select s.pid, s.thread, s.name, s.kind, s.step, microseconds(s.started_at - p.zero) as start,
               microseconds(s.ended_at - p.zero) as end
        from spans s cross join (select pass_start(%(run)s) as zero) p
        where s.run_id = %(run)s
          and (%(times)s::tstzmultirange is null
               or %(times)s && tstzrange(s.started_at, greatest(s.started_at, coalesce(s.ended_at, 'infinity')), '[]'))
        -- Of two that take the same time the outer one was given the lower number.
        order by s.pid, s.thread, s.started_at, s.ended_at desc nulls first, length(s.span_id), s.span_id
        """,
        {"run": run_id, "times": times},
    )


def counters_of(
    connection: Connection, run_id: str, quantities: Sequence[str] | None, times: str | None = None
) -> Iterator[CounterValue]:
    """Yield a run's samples by quantity and device, from the same scope and source as a chart.

    A sample is placed at the start of its interval. Without `quantities`, the result has all quantities with a scope
    narrower than the host, and the software metrics. With the text of a ``tstzmultirange``, it has the samples in it.
    """
    yield from _stream(
        connection,
        CounterValue,
        """
        with chosen as (
            select quantity, unit, scope, coalesce(device, '') as device, series_id, scale, runset_ids, started_at, ended_at,
                   case when once then 'max' else combine end as combine
            from run_sources(array[%(run)s], %(quantities)s)
            where counts and narrowest
              and (%(quantities)s::text[] is not null or scope <> 'host' and quantity not in ('start_time', 'end_time'))
        )
        select quantity, unit, scope, device,
               greatest(microseconds(time - max(dt) * interval '1 s' - p.zero),
                        microseconds(r.started_at - p.zero)) as start,
               case combine when 'sum' then sum(value * scale) when 'max' then max(value * scale)
                            else avg(value * scale) end as value
        from chosen
        -- Bounds on time only narrow the search; the tag decides. A minute is a scrape's longest interval.
        cross join lateral (
            select time, value, dt::float8 from bounded_samples
            where series_id = chosen.series_id and runset_id = any(chosen.runset_ids)
              and time >= chosen.started_at - interval '1 min' and last >= chosen.started_at - interval '1 min'
              and time < chosen.ended_at + interval '1 min' and first < chosen.ended_at + interval '1 min'
              and value is not null and (%(times)s::tstzmultirange is null or %(times)s @> time)
            offset 0) x
        join runs r on r.run_id = %(run)s cross join (select pass_start(%(run)s) as zero) p
        group by quantity, unit, scope, device, combine, time, p.zero, r.started_at
        order by quantity, device, time
        """,
        {"run": run_id, "quantities": None if quantities is None else list(quantities), "times": times},
    )
    if quantities is None:
        yield from _stream(
            connection,
            CounterValue,
            """
            select n.name as quantity, '' as unit, '' as scope, '' as device,
                   microseconds(s.time - p.zero) as start, value
            from software_metrics s join logged_names(array(select logged_keys(%(run)s)), array[%(run)s]) n using (key)
            cross join (select pass_start(%(run)s) as zero) p
            where run_id = %(run)s and value is not null and (%(times)s::tstzmultirange is null or %(times)s @> s.time)
            order by n.name, s.time, s.step
            """,
            {"run": run_id, "times": times},
        )


def xids_of(connection: Connection, run_id: str) -> list[Xid]:
    """Return the XID errors of a run's GPUs, in order of time."""
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
                select time from bounded_samples
                where series_id = s.series_id and runset_id = rs.runset_id and value > 0
                  and time >= rs.started_at - interval '1 min' and last >= rs.started_at - interval '1 min'
                  and time < coalesce(rs.ended_at, 'infinity') + interval '1 min'
                  and first < coalesce(rs.ended_at, 'infinity') + interval '1 min'
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
