"""Content of a report other than curves: phases, steps, findings, data quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = [
    "Device",
    "Finding",
    "Phase",
    "Quality",
    "StepCounts",
    "Steps",
    "Work",
    "devices",
    "findings",
    "phases",
    "qualities",
    "step_counts",
    "steps",
    "works",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Device:
    """GPU or MIG instance of a run, with its display name."""

    run_id: str
    name: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Phase:
    """Phase of a run: seconds since the run's start, and duration in seconds; a current phase lasts until now."""

    run_id: str
    name: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Steps:
    """Durations of a run's steps or epochs, in seconds.

    Attributes
    ----------
    kind
        ``step`` or ``epoch``.
    """

    run_id: str
    kind: str
    n: int
    mean: float
    p50: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Steps of a run by duration.

    Attributes
    ----------
    low, high
        Range of the bins, the same for all runs, in seconds.
    counts
        Number of steps in each bin, and beyond the last. There are more bins for more steps.
    longest
        Longest duration in seconds.
    """

    run_id: str
    low: float
    high: float
    counts: list[int]
    longest: float


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a run. Results are comparable within one work, software metrics within one program."""

    run_id: str
    work: str
    program: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a rule, in seconds since the run's start; `ended` is ``None`` while it holds.

    `done` describes the actions in plain text; ``None`` if no action was requested.
    """

    run_id: str
    rule: str
    severity: str
    start: float
    ended: float | None
    evidence: dict[str, Any]
    done: str | None


@dataclass(frozen=True, slots=True)
class Quality:
    """Data quality of a run, and the exporters that measured it; see the view ``run_quality``.

    Attributes
    ----------
    intervals
        Seconds between scrapes by exporter, once the run's summary is stored.
    unmeasured
        Whether its row chose no exporter.
    other_cores, cores
        Cores that other programs used of those of its hosts; see the view ``run_contention``. ``None`` before its summary is
        stored.
    service_cores
        Cores that services of hypergauge used; ``None`` where these are too few to count.
    disturbed
        Whether other programs may have cost too much of its time to decide anything.
    """

    run_id: str
    coverage: float | None
    interval_seconds: float | None
    listeners: list[str]
    intervals: dict[str, float]
    unmeasured: bool
    simulated: bool
    profiled: bool
    shared: bool
    throttled: bool | None
    overhead: float | None
    other_cores: float | None = None
    cores: float | None = None
    service_cores: float | None = None
    disturbed: bool = False

    @property
    def differing_intervals(self) -> dict[str, float]:
        """Return the intervals if those of its exporters differ, else none."""
        return self.intervals if len(set(self.intervals.values())) > 1 else {}


def devices(connection: Connection, run_ids: Sequence[str]) -> list[Device]:
    """Return the GPUs and MIG instances of runs."""
    return _rows(
        connection,
        Device,
        """
        select p.run_id, coalesce(d.device, p.gpu_uuid) as name, d.model
        from placements p left join devices d
            on (d.host, d.gpu_uuid, d.origin) = (p.host, p.gpu_uuid, p.origin)
            and d.gpu_instance_id is not distinct from p.gpu_instance_id
        where p.run_id = any(%s) and p.gpu_uuid is not null
        order by p.run_id, p.gpu_uuid, p.gpu_instance_id
        """,
        run_ids,
    )


def phases(connection: Connection, run_ids: Sequence[str]) -> list[Phase]:
    """Return the phases of runs in order of time."""
    return _rows(
        connection,
        Phase,
        """
        select s.run_id, s.name, extract(epoch from s.started_at - r.started_at)::float8 as start,
               extract(epoch from coalesce(s.ended_at, r.ended_at, now()) - s.started_at)::float8 as seconds
        from spans s join runs r using (run_id)
        where s.run_id = any(%s) and s.kind = 'phase' and r.started_at is not null
        order by s.run_id, s.started_at, s.ended_at desc nulls first
        """,
        run_ids,
    )


def steps(connection: Connection, run_ids: Sequence[str], parts: Mapping[str, RunPart] | None = None) -> list[Steps]:
    """Return the durations of the runs' finished steps and epochs, or of those that began in a part of each run."""
    return records(
        connection,
        Steps,
        """
        select run_id, kind, count(*) as n, avg(seconds) as mean,
               percentile_cont(0.5) within group (order by seconds) as p50,
               percentile_cont(0.95) within group (order by seconds) as p95, max(seconds) as max
        from (select run_id, kind, extract(epoch from ended_at - started_at)::float8 as seconds
              from spans join unnest(%(runs)s::text[], %(times)s::tstzmultirange[]) as requested (run_id, times) using (run_id)
              where kind in ('step', 'epoch') and ended_at is not null and (times is null or times @> started_at)) ended
        group by run_id, kind order by run_id, kind
        """,
        _requested(run_ids, parts),
    )


def step_counts(
    connection: Connection, run_ids: Sequence[str], parts: Mapping[str, RunPart] | None = None
) -> list[StepCounts]:
    """Return the finished steps of runs by duration, or those that began in a part of each run.

    The bins go from the shortest duration to the longest. If that is over twice the 99th percentile, they end there, so that a
    few long steps do not hide the others.
    """
    return records(
        connection,
        StepCounts,
        """
        with took as materialized (
            select run_id, extract(epoch from ended_at - started_at)::float8 as seconds
            from spans join unnest(%(runs)s::text[], %(times)s::tstzmultirange[]) as requested (run_id, times) using (run_id)
            where kind = 'step' and ended_at is not null and (times is null or times @> started_at)
        ), bounds as (
            select low, greatest(case when longest > 2 * usual then usual else longest end, low * 1.01, low + 1e-6) as high, bins
            from (select min(seconds) as low, max(seconds) as longest, percentile_cont(0.99) within group (order by seconds) as usual,
                         least(40, greatest(10, ceil(sqrt(count(*)))))::integer as bins from took) x
            where low is not null
        ), counted as (
            select run_id, low, high, bins, case when seconds = high then bins else width_bucket(seconds, low, high, bins) end as bin,
                   count(*) as n, max(seconds) as longest
            from took cross join bounds group by 1, 2, 3, 4, 5
        )
        select run_id, low, high, array_agg(coalesce(n, 0)::integer order by bin) as counts, max(longest) as longest
        from (select distinct run_id, low, high, bins from counted) runs
        cross join generate_series(1, bins + 1) as bin left join counted using (run_id, low, high, bins, bin)
        group by run_id, low, high order by run_id
        """,
        _requested(run_ids, parts),
    )


def _requested(run_ids: Sequence[str], parts: Mapping[str, RunPart] | None) -> dict[str, Any]:
    ids = list(run_ids if parts is None else parts)
    return {"runs": ids, "times": [None if parts is None else parts[run].times for run in ids]}


def findings(connection: Connection, run_ids: Sequence[str]) -> list[Finding]:
    """Return the findings of rules in runs, in order of time."""
    return _rows(
        connection,
        Finding,
        """
        select f.run_id, rule, severity, extract(epoch from f.started_at - r.started_at)::float8 as start,
               extract(epoch from f.ended_at - r.started_at)::float8 as ended, evidence,
               firing_done(f.run_id, rule, f.started_at) as done
        from rule_firings f join runs r using (run_id)
        where f.run_id = any(%s) order by f.run_id, f.started_at, rule
        """,
        run_ids,
    )


def qualities(connection: Connection, run_ids: Sequence[str]) -> list[Quality]:
    """Return the data quality of runs."""
    return _rows(
        connection,
        Quality,
        """
        with requested as (select %s::text[] as runs)
        select run_id, coverage, interval_seconds, coalesce(found.listeners, '{}') as listeners, intervals,
               coalesce(exporters = '{}', false) as unmeasured, q.simulated, profiled, shared, throttled, overhead,
               c.other_cores + c.other_run_cores as other_cores, c.cores,
               case when busy_services(c.service_cores) > 0 then c.service_cores end as service_cores, coalesce(c.delay > delay_limit(), false) as disturbed
        from run_quality q join runs using (run_id)
        left join lateral (select * from run_contention where run_id = q.run_id and runs.summarised offset 0) c (id) on true
        left join (select l.* from requested cross join lateral run_listeners(runs) l) found using (run_id)
        where run_id = any((select runs from requested)::text[])
        """,
        run_ids,
    )


def works(connection: Connection, run_ids: Sequence[str]) -> dict[str, Work]:
    """Return the work of runs by run id; see ``run_works``."""
    return {one.run_id: one for one in _rows(connection, Work, "select * from run_works(%s)", run_ids)}


def _rows(connection: Connection, kind: type[T], statement: str, run_ids: Sequence[str]) -> list[T]:
    return records(connection, kind, statement, (list(run_ids),))
