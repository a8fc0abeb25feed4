"""Content of a report: runs, comparison, curves, phases, firings, data quality."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hypergauge.core.errors import NoData
from hypergauge.insight.charts.chart import Chart, chart
from hypergauge.insight.comparison import neighbours
from hypergauge.insight.comparison.comparison import Comparison, compare
from hypergauge.insight.comparison.entry import Further
from hypergauge.insight.comparison.trust import trust
from hypergauge.insight.highlights import Highlight, of_runs
from hypergauge.insight.sharing.collocation import interference, remarks, verdict
from hypergauge.insight.sharing.interference import Interference
from hypergauge.sql.queries.charts import software_keys
from hypergauge.sql.queries.report import Device, Finding, Phase, Quality, Steps, devices, findings, phases, steps
from hypergauge.sql.queries.summaries import coverage
from hypergauge.sql.runs.selection import ExperimentInfo, RunInfo, list_experiments, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["Report", "report"]

# What is drawn where nobody says what: of each line the first that there is.
_CHARTED = (
    ("cpu_usage",),
    ("memory_used",),
    ("gpu_sm_active", "gpu_utilization"),
    ("gpu_memory_used",),
    ("gpu_power", "system_power", "cpu_power"),
)
_MOST_KEYS = 3
# All curves together have no more points than a page can hold, but each enough to be one.
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
        In the order in which they were selected, those as well that have not started.
    comparisons
        Of the runs and, where there are several, of their workloads.
    verdict
        What running side by side cost, and whether it paid, in sentences.
    interference
        The same in figures, over all repetitions.
    warnings
        Sentences without which the comparison would mislead.
    charts
        By run and, where workloads have several runs, by workload; none where nothing was measured.
    devices, highlights, phases, steps, findings, qualities
        By run id.
    """

    experiments: tuple[ExperimentInfo, ...]
    runs: tuple[RunInfo, ...]
    comparisons: tuple[Comparison, ...]
    verdict: tuple[str, ...]
    interference: Interference
    warnings: tuple[str, ...]
    charts: tuple[Chart, ...]
    devices: Mapping[str, Sequence[Device]]
    highlights: Mapping[str, Sequence[Highlight]]
    phases: Mapping[str, Sequence[Phase]]
    steps: Mapping[str, Sequence[Steps]]
    findings: Mapping[str, Sequence[Finding]]
    qualities: Mapping[str, Quality]


def report(
    connection: Connection, selectors: Sequence[str], metrics: Sequence[str] = (), *, baseline: str | None = None,
    further: Sequence[Further] = (),
) -> Report:  # fmt: skip
    """Return what is to be told of runs.

    Parameters
    ----------
    metrics
        What is drawn; by default some that the runs have.
    baseline
        A run that the others are compared with.
    further
        What adds figures to those of the runs.

    Raises
    ------
    BadRequest
        A selector names nothing, or the runs have no such metric.
    NoData
        None of the runs has started.
    """
    runs = select_runs(connection, selectors)
    ids = [run.run_id for run in runs]
    by_run = compare(connection, selectors, baseline=baseline, further=further)
    workloads = {(run.experiment_id, run.workload) for run in runs if run.started_at is not None}
    several = len(workloads) > 1
    by_workload = [compare(connection, selectors, by="workload", further=further)] if several else []
    drawn = tuple(metrics) or _usual(connection, ids)
    grouped = several and len(workloads) < sum(run.started_at is not None for run in runs)
    changes = neighbours.of_comparison(connection, by_run)
    sharing = interference(connection, selectors)
    trusted = trust(connection, by_run)
    chosen = {run.experiment_id for run in runs}
    return Report(
        experiments=tuple(one for one in list_experiments(connection) if one.experiment_id in chosen),
        runs=tuple(runs),
        comparisons=(by_run, *by_workload),
        verdict=tuple(verdict(sharing)),
        interference=sharing,
        warnings=(*trusted.remarks, *neighbours.footnotes(by_run, changes), *remarks(sharing)),
        charts=tuple(_charts(connection, runs, drawn, ("run", "workload") if grouped else ("run",))),
        devices=_by_run(devices(connection, ids)),
        highlights=of_runs(connection, [run for run in runs if run.started_at is not None]),
        phases=_by_run(phases(connection, ids)),
        steps=_by_run(steps(connection, ids)),
        findings=_by_run(findings(connection, ids)),
        qualities=trusted.qualities,
    )


def _usual(connection: Connection, run_ids: Sequence[str]) -> tuple[str, ...]:
    """Return what most people ask for first, of what runs have."""
    there = {one.quantity for one in coverage(connection, run_ids)}
    quantities = [next((name for name in names if name in there), None) for names in _CHARTED]
    keys = software_keys(connection, run_ids)
    # MLflow's own measurements of the system are what the quantities are, less well.
    own = sorted((key for key in keys if not key.startswith("system/")), key=lambda key: (-len(keys[key]), key))
    return (*(name for name in quantities if name), *own[:_MOST_KEYS])


def _charts(
    connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str], kinds: Sequence[str]
) -> Iterable[Chart]:
    if not metrics:
        return
    points = min(_ENOUGH_POINTS, max(_FEWEST_POINTS, _MOST_POINTS // (min(len(runs), 40) * len(metrics))))
    for by in kinds:
        try:
            yield chart(connection, runs, metrics, by=by, points=points)
        except NoData:
            return


def _by_run(rows: Iterable[T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for row in rows:
        found.setdefault(row.run_id, []).append(row)
    return found
