"""Subject of a chart: runs or workloads, their metrics, and notes on them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest, NoData, did_you_mean
from hypergauge.insight.charts.tensors import NAMED, TensorMetric, available, check_curves, resolve
from hypergauge.insight.comparison.alignment import axes_of, check_align
from hypergauge.insight.comparison.columns import SCOPES
from hypergauge.insight.part import Part
from hypergauge.sql.queries.charts.axes import Span
from hypergauge.sql.queries.charts.chart_styles import ChartStyle, run_styles, workload_styles
from hypergauge.sql.queries.charts.charts import Measured, measured, software_keys
from hypergauge.sql.queries.charts.tensors import tensor_collections
from hypergauge.sql.queries.notices import Fact, Notice, chart_notices, notices, uneven_workloads
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.queries.summaries import coverage, gpu_facts
from hypergauge.sql.runs.selection import RunInfo, select_runs, with_sharing
from hypergauge.sql.server.database import Connection

__all__ = ["Subject", "subject"]

# A workload's title lists at most this many names of runs.
_MOST_NAMES = 3
# Numbers of colors and strokes of `chart_style`.
_COLORS, _STROKES = 12, 3


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a chart.

    Attributes
    ----------
    metrics
        Requested metrics, without repetition, in that order.
    logged
        Software metrics among them.
    tensors
        Metrics of tensors among them, by name. One that some runs log is a metric of the tensors of the others.
    groups
        Runs of each series, by its label in the database's charts.
    left_out
        Labels of the series beyond the limit.
    axes
        Position of each run on the axis, by run id.
    facts
        Measurements of each quantity and run, by metric, and then in the order of the runs.
    parts
        Drawn part of each run, by run id; ``None`` for whole runs.
    simulated_runs
        Ids of the runs on simulated GPUs.
    styles
        Style of each series, by its label in the database's charts.
    notices
        Facts without which the chart would mislead.
    """

    metrics: tuple[str, ...]
    logged: tuple[str, ...]
    tensors: Mapping[str, TensorMetric]
    groups: Mapping[str, Sequence[RunInfo]]
    left_out: tuple[str, ...]
    axes: Mapping[str, Span]
    facts: tuple[Measured, ...]
    parts: Mapping[str, RunPart] | None
    simulated_runs: AbstractSet[str]
    styles: Mapping[str, ChartStyle]
    notices: tuple[Notice, ...]

    @property
    def run_ids(self) -> list[str]:
        """Ids of all runs."""
        return [run.run_id for group in self.groups.values() for run in group]

    @property
    def titles(self) -> tuple[str, ...]:
        """Labels of the series with the names of their runs, in the order of selection."""
        return tuple(self.title(label) for label in self.groups)

    def sort_key(self, metric: str, label: str, scope: str) -> tuple[int, int, int, str]:
        """Return the sort key of a series; tensors are in the order of the model."""
        at = self.tensors[metric].names.index(scope) if metric in self.tensors and scope else 0
        return self.metrics.index(metric), list(self.groups).index(label), at, scope

    def unit(self, metric: str) -> str:
        """Return the unit of a quantity; empty for a software metric."""
        if metric in self.tensors:
            return self.tensors[metric].name.unit
        return next((one.unit for one in self.facts if one.quantity == metric), "")

    def style(self, metric: str, label: str, scope: str) -> ChartStyle:
        """Return the style of a series: that of its run or workload; of several tensors of one, each has its own."""
        if metric in self.tensors and self.tensors[metric].several and len(self.groups) == 1:
            at = self.tensors[metric].names.index(scope)
            return ChartStyle(at % _COLORS, at // _COLORS % _STROKES)
        return self.styles[label]

    def title(self, label: str) -> str:
        """Return a label with the names of its runs and their ways of sharing: ``20/1/3 wide · MPS``."""
        names = list(dict.fromkeys(run.name for run in self.groups[label] if run.name))
        if len(names) > _MOST_NAMES:
            names[_MOST_NAMES:] = ["…"]
        return with_sharing(f"{label} {', '.join(names)}".rstrip(), self.groups[label])

    def ids(self, label: str) -> tuple[str, ...]:
        """Return the ids of a series' runs."""
        return tuple(run.run_id for run in self.groups[label])

    def simulated(self, metric: str, label: str) -> bool:
        """Return whether the values of a series are those of simulated GPUs."""
        return metric.startswith("gpu_") and any(run.run_id in self.simulated_runs for run in self.groups[label])

    def profiled(self, label: str) -> bool:
        """Return whether a profiler was attached to one of its runs."""
        return any(run.profilers for run in self.groups[label])

    def ended_early(self, label: str) -> bool:
        """Return whether all of its runs have failed, were stopped or reached a time limit."""
        return all(run.ended_early for run in self.groups[label])


def subject(
    connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str], *, by: str, align: str,
    scopes: Sequence[str] | None, max_series: int, part: Part | None = None,
) -> Subject:  # fmt: skip
    """Return the subject of a chart of runs; see `hypergauge.insight.charts.chart.chart`."""
    _check(by, align, scopes)
    metrics = tuple(dict.fromkeys(metrics))
    started = _started(connection, runs, by)
    logged, tensors = _logged(connection, _ids(started), metrics)
    parts = part.find(connection, started) if part else None
    axes = axes_of(connection, _ids(started), align)
    outside = [] if parts is None else [run for run in started if run.run_id not in parts]
    started = [run for run in started if run not in outside]
    quantities = [name for name in metrics if name not in logged and name not in tensors]
    facts = measured(connection, list(axes), quantities, scopes)
    recorded: dict[str, AbstractSet[str]] = {
        name: logged.get(name, set()) | (tensors[name].runs if name in tensors else set())
        for name in metrics
        if name in logged or name in tensors
    }
    having = {name: recorded.get(name) or {one.run_id for one in facts if one.quantity == name} for name in metrics}
    groups: dict[str, list[RunInfo]] = {}
    for run in started:
        if run.run_id in axes and any(run.run_id in some for some in having.values()):
            groups.setdefault(_label(run, by), []).append(run)
    if not groups:
        raise NoData(f"the selected runs have no samples of {' or '.join(metrics)}")
    left_out, total = tuple(groups)[max_series:], len(groups)
    groups = dict(list(groups.items())[:max_series])
    for name, one in tensors.items():
        check_curves(name, one, len(groups))
    drawn = [run for group in groups.values() for run in group]
    position = {run.run_id: at for at, run in enumerate(drawn)}
    facts = [one for one in facts if one.run_id in position]
    facts.sort(key=lambda one: (metrics.index(one.quantity), position[one.run_id], SCOPES.index(one.scope)))
    simulated_runs = {run for run, gpu in gpu_facts(connection, list(position)).items() if gpu.simulated}
    facts_ = (
        *_of_part(part, [_label(run, "run") for run in outside]),
        *_without_axis([_label(run, "run") for run in started if run.run_id not in axes], align),
        *_left_out(by, left_out, total),
        *_uneven(uneven_workloads(connection, list(position)) if by == "workload" else ()),
        *_missing(
            {
                run.run_id: _label(run, "run")
                for run in started
                if run.run_id in axes and _label(run, by) not in left_out
            },
            having,
            recorded,
        ),
    )
    on_gpus = any(metric.startswith("gpu_") for metric in metrics)
    found = (
        *notices(connection, facts_),
        *(
            one
            for one in chart_notices(connection, list(position), quantities, scopes)
            if one.code != "not_measured" and (on_gpus or one.code != "simulated_gpu")
        ),
    )
    axes = {run_id: axes[run_id] for run_id in position}
    drawn_parts = None if parts is None else {run_id: parts[run_id] for run_id in position}
    styles = (run_styles if by == "run" else workload_styles)(connection, list(position))
    return Subject(
        metrics,
        tuple(logged),
        tensors,
        groups,
        left_out,
        axes,
        tuple(facts),
        drawn_parts,
        simulated_runs,
        styles,
        found,
    )


def _of_part(part: Part | None, without: Sequence[str]) -> Iterator[Fact]:
    if part:
        yield part.fact
    if without:
        yield Fact("outside_part", without)


def _without_axis(labels: Sequence[str], align: str) -> Iterator[Fact]:
    if labels:
        yield Fact("no_axis", labels, {"align": align})


def _left_out(by: str, labels: Sequence[str], total: int) -> Iterator[Fact]:
    counts = {"total": total, "drawn": total - len(labels)}
    if labels and by == "run":
        yield Fact("runs_left_out", labels, counts)
    elif labels:
        yield Fact("workloads_left_out", values={"workloads": labels, **counts})


def _uneven(labels: Sequence[str]) -> Iterator[Fact]:
    if labels:
        yield Fact("mean_of_fewer", values={"workloads": labels})


def _missing(
    labels: Mapping[str, str], having: Mapping[str, AbstractSet[str]], recorded: Container[str]
) -> Iterator[Fact]:
    """Yield a fact for the runs without a metric, drawn or not, and together for metrics that the same runs lack.

    Parameters
    ----------
    labels
        Labels of the runs by id.
    having
        Ids of the runs with each metric.
    recorded
        Metrics of scripts; the others are measured.
    """
    lacking: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for metric, ids in having.items():
        if without := tuple(label for run_id, label in labels.items() if run_id not in ids):
            code = "not_logged" if metric in recorded else "not_measured"
            lacking.setdefault((code, without), []).append(metric)
    for (code, without), metrics in lacking.items():
        yield Fact(code, without, {"metrics": metrics})


def _started(connection: Connection, runs: Sequence[RunInfo], by: str) -> list[RunInfo]:
    """Return the runs that have started, or those of the runs' workloads."""
    if by == "workload":
        runs = select_runs(connection, list(dict.fromkeys(_label(run, by) for run in runs)))
    started = [run for run in runs if run.started_at is not None]
    if not started:
        raise NoData("none of the selected runs has started yet")
    return started


def _check(by: str, align: str, scopes: Sequence[str] | None) -> None:
    if by not in ("run", "workload"):
        raise BadRequest(f"a series is a 'run' or a 'workload', not a {by!r}")
    check_align(align)
    for scope in scopes or ():
        if scope not in SCOPES:
            raise BadRequest(f"there is no scope {scope!r}{did_you_mean(scope, SCOPES)}")


def _ids(runs: Iterable[RunInfo]) -> list[str]:
    return [run.run_id for run in runs]


def _label(run: RunInfo, by: str) -> str:
    """Return the label of a run or its workload in the database's charts."""
    if by == "workload":
        return f"{run.experiment_id}/{run.workload}"
    return run.full_label


def _logged(
    connection: Connection, run_ids: Sequence[str], metrics: Sequence[str]
) -> tuple[dict[str, set[str]], dict[str, TensorMetric]]:
    """Return the runs that have each software metric among `metrics`, and the metrics of tensors among them.

    A run that logs a named metric, such as ``loss``, has the logged one, and other runs have that of their tensors.

    Raises
    ------
    BadRequest
        A metric is none of these runs.
    """
    quantities = [one.quantity for one in coverage(connection, run_ids)]
    keys = software_keys(connection, run_ids)
    logged = {name: keys[name] for name in metrics if name not in quantities and name in keys}
    others = [name for name in metrics if name not in quantities and (name not in keys or name in NAMED)]
    if not others:
        return logged, {}
    collections, tensors = tensor_collections(connection, run_ids), {}
    for name in others:
        unlogged = [one for one in collections if one.run_id not in logged.get(name, ())]
        if name in logged and not NAMED[name].found(unlogged):
            continue
        if (one := resolve(name, unlogged)) is None:
            known = [*quantities, *keys, *(one.quantity for one in available(collections))]
            raise BadRequest(f"these runs have no metric {name!r}{did_you_mean(name, known)}")
        tensors[name] = one
    return logged, tensors
