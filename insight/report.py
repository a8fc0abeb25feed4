"""Content of a report: runs, comparison, curves, phases, firings, data quality."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from hypergauge.core.errors import NoData
from hypergauge.insight.charts.chart import Chart, chart
from hypergauge.insight.charts.cores import Cores, cores
from hypergauge.insight.charts.step_durations import StepDurations, step_durations
from hypergauge.insight.comparison.comparison import Comparison, compare
from hypergauge.insight.comparison.entry import Further
from hypergauge.insight.comparison.trust import trust
from hypergauge.insight.flames import FlameGraph, flame_graphs
from hypergauge.insight.highlights import Highlight, of_runs
from hypergauge.insight.ledger.ledger import ledger
from hypergauge.insight.ledger.model import Ledger
from hypergauge.insight.part import Part
from hypergauge.insight.sharing.collocation import facts, interference, verdict
from hypergauge.insight.sharing.interference import Interference
from hypergauge.insight.training import HealthLine, trainings
from hypergauge.sql.queries.charts.charts import software_keys
from hypergauge.sql.queries.notices import Notice, notices
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.queries.report import (
    Device,
    Finding,
    Phase,
    Quality,
    Steps,
    Work,
    devices,
    findings,
    phases,
    steps,
    works,
)
from hypergauge.sql.queries.summaries import coverage
from hypergauge.sql.runs.selection import ExperimentInfo, RunInfo, list_experiments, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["MOST_MAPS", "Report", "report"]

# Default charts: the first measured quantity of each line.
_CHARTED = (
    ("cpu_usage",),
    ("memory_used",),
    ("gpu_sm_active", "gpu_utilization"),
    ("gpu_memory_used",),
    ("gpu_power", "system_power", "cpu_power"),
)
_MOST_KEYS = 3
# Runs with a map of their host's cores.
MOST_MAPS = 6
# Limit of points on a page; fewest and most points of a curve.
_MOST_POINTS, _FEWEST_POINTS, _ENOUGH_POINTS = 40_000, 100, 600


class _OfRun(Protocol):
    @property
    def run_id(self) -> str: ...


T = TypeVar("T", bound=_OfRun)


@dataclass(frozen=True, slots=True)
class Report:
    """Content of a report on some runs.

    Attributes
    ----------
    runs
        Selected runs in order, including those that have not started.
    comparisons
        Comparisons by run and, if there are several, by workload.
    verdict
        Cost and benefit of collocation, in sentences.
    interference
        Values behind the verdict, over all repetitions.
    notices
        Facts without which the comparison would mislead.
    charts
        Charts by run and, if workloads have several runs, by workload; none without measurements.
    ledger
        Ledger of the GPUs; ``None`` if no run used one.
    flames
        Flame graphs of the runs' profiles.
    cores
        Cores of the hosts of the first runs.
    step_durations
        Histogram of the steps; ``None`` without steps.
    devices, highlights, phases, steps, trainings, findings, qualities, works
        By run id.
    part
        Part of the runs in comparisons, charts, highlights, phases, steps, trainings and findings; ``None`` for whole runs.
    """

    experiments: tuple[ExperimentInfo, ...]
    runs: tuple[RunInfo, ...]
    comparisons: tuple[Comparison, ...]
    verdict: tuple[str, ...]
    interference: Interference
    notices: tuple[Notice, ...]
    charts: tuple[Chart, ...]
    ledger: Ledger | None
    flames: tuple[FlameGraph, ...]
    cores: tuple[Cores, ...]
    step_durations: StepDurations | None
    devices: Mapping[str, Sequence[Device]]
    highlights: Mapping[str, Sequence[Highlight]]
    phases: Mapping[str, Sequence[Phase]]
    steps: Mapping[str, Sequence[Steps]]
    findings: Mapping[str, Sequence[Finding]]
    qualities: Mapping[str, Quality]
    works: Mapping[str, Work]
    part: Part | None = None
    trainings: Mapping[str, Sequence[HealthLine]] = field(default_factory=dict)


def report(
    connection: Connection, selectors: Sequence[str], metrics: Sequence[str] = (), *, baseline: str | None = None,
    further: Sequence[Further] = (), part: Part | None = None,
) -> Report:  # fmt: skip
    """Return the content of a report on runs.

    Parameters
    ----------
    metrics
        Metrics of the charts; by default usual ones that the runs have.
    baseline
        Selector of the run that the others are compared with.
    further
        Functions that add values to those of the runs.
    part
        Part of each run to report on; by default whole runs.

    Raises
    ------
    BadRequest
        A selector names nothing, or the runs have no such metric or part.
    NoData
        None of the runs has started.
    """
    runs = select_runs(connection, selectors)
    ids = [run.run_id for run in runs]
    parts = part.find(connection, runs) if part else None
    by_run = compare(connection, selectors, baseline=baseline, part=part, further=further)
    workloads = {(run.experiment_id, run.workload) for run in runs if run.started_at is not None}
    several = len(workloads) > 1
    by_workload = [compare(connection, selectors, by="workload", part=part, further=further)] if several else []
    drawn = tuple(metrics) or _usual(connection, ids)
    grouped = several and len(workloads) < sum(run.started_at is not None for run in runs)
    sharing = interference(connection, selectors)
    trusted = trust(connection, by_run)
    chosen = {run.experiment_id for run in runs}
    return Report(
        experiments=tuple(one for one in list_experiments(connection) if one.experiment_id in chosen),
        runs=tuple(runs),
        comparisons=(by_run, *by_workload),
        verdict=tuple(verdict(sharing)),
        interference=sharing,
        notices=(*trusted.notices, *notices(connection, facts(sharing))),
        charts=tuple(_charts(connection, runs, drawn, ("run", "workload") if grouped else ("run",), part)),
        ledger=_ledger(connection, runs),
        flames=tuple(flame_graphs(connection, ids)),
        cores=cores(connection, runs, parts, MOST_MAPS),
        step_durations=step_durations(connection, runs, parts),
        devices=_by_run(devices(connection, ids)),
        highlights=_highlights(connection, runs, parts),
        phases=_by_run(
            one for one in phases(connection, ids) if _meets(parts, one.run_id, one.start, one.start + one.seconds)
        ),
        steps=_by_run(steps(connection, ids, parts)),
        trainings=trainings(connection, runs, parts),
        findings=_by_run(one for one in findings(connection, ids) if _meets(parts, one.run_id, one.start, one.ended)),
        qualities=trusted.qualities,
        works=works(connection, ids),
        part=part,
    )


def _usual(connection: Connection, run_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the default metrics, as far as the runs have them."""
    there = {one.quantity for one in coverage(connection, run_ids)}
    quantities = [next((name for name in names if name in there), None) for names in _CHARTED]
    keys = software_keys(connection, run_ids)
    # MLflow's system metrics duplicate the quantities, less precisely.
    own = sorted((key for key in keys if not key.startswith("system/")), key=lambda key: (-len(keys[key]), key))
    return (*(name for name in quantities if name), *own[:_MOST_KEYS])


def _charts(
    connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str], kinds: Sequence[str], part: Part | None
) -> Iterable[Chart]:
    if not metrics:
        return
    points = min(_ENOUGH_POINTS, max(_FEWEST_POINTS, _MOST_POINTS // (min(len(runs), 40) * len(metrics))))
    for by in kinds:
        try:
            yield chart(connection, runs, metrics, by=by, points=points, part=part)
        except NoData:
            return


def _highlights(
    connection: Connection, runs: Sequence[RunInfo], parts: Mapping[str, RunPart] | None
) -> Mapping[str, Sequence[Highlight]]:
    """Return the highlights of runs, or of a part of each: those that overlap it."""
    started = {run.run_id: run.started_at for run in runs if run.started_at is not None}
    found = of_runs(connection, [run for run in runs if run.run_id in started])
    if parts is None:
        return found
    return {
        run: [
            one
            for one in some
            if one.kind != "rest"
            and _meets(parts, run, *((time - started[run]).total_seconds() for time in (one.started_at, one.ended_at)))
        ]
        for run, some in found.items()
    }


def _meets(parts: Mapping[str, RunPart] | None, run_id: str, start: float, end: float | None) -> bool:
    """Return whether an interval of a run overlaps its part."""
    return parts is None or (run_id in parts and parts[run_id].meets(start, math.inf if end is None else end))


def _ledger(connection: Connection, runs: Sequence[RunInfo]) -> Ledger | None:
    try:
        return ledger(connection, runs)
    except NoData:
        return None


def _by_run(rows: Iterable[T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for row in rows:
        found.setdefault(row.run_id, []).append(row)
    return found
