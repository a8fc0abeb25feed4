"""Bars of a chart: mean and spread of each metric."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hypergauge.core.errors import BadRequest
from hypergauge.insight.charts.subject import Subject, subject
from hypergauge.insight.charts.tensors import TensorMetric
from hypergauge.insight.part import Part
from hypergauge.sql.queries.charts.chart_styles import ChartStyle
from hypergauge.sql.queries.charts.charts import Measured, measured
from hypergauge.sql.queries.charts.tensors import losses, tensor_curves
from hypergauge.sql.queries.notices import Notice
from hypergauge.sql.queries.report import works
from hypergauge.sql.queries.summaries import final_metrics
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Bar", "Bars", "bars"]


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar of one run or workload.

    Attributes
    ----------
    label, runs, style, metric, unit, scope
        As in `hypergauge.insight.charts.chart.Series`.
    value
        Mean over a run's time, or the last value of a software metric or of a tensor; for a workload, the mean over its runs. There
        is no bar if the last value was not finite, or if one of a workload's runs lacks a value.
    low, high
        Minimum and maximum of the samples; for a workload, of its runs' means.
    p95
        95th percentile of a run's samples; ``None`` for a workload or a software metric.
    simulated, profiled
        As in `hypergauge.insight.charts.chart.Series`.
    """

    label: str
    runs: tuple[str, ...]
    style: ChartStyle
    metric: str
    unit: str
    scope: str
    value: float
    low: float
    high: float
    p95: float | None
    simulated: bool
    profiled: bool


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars by metric; the attributes are those of `hypergauge.insight.charts.chart.Chart`."""

    by: str
    metrics: tuple[str, ...]
    bars: tuple[Bar, ...]
    left_out: tuple[str, ...]
    notices: tuple[Notice, ...]
    labels: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "by": self.by,
            "bars": [asdict(one) for one in self.bars],
            "left_out": self.left_out,
            "notices": [asdict(one) for one in self.notices],
        }


def bars(
    connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str], *, by: str = "run",
    scopes: Sequence[str] | None = None, max_series: int = 40, part: Part | None = None,
) -> Bars:  # fmt: skip
    """Return a bar per metric and run, or workload of the runs; see `hypergauge.insight.charts.chart.chart`."""
    about = subject(connection, runs, metrics, by=by, align="time", scopes=scopes, max_series=max_series, part=part)
    if about.parts is not None:
        quantities = [metric for metric in about.metrics if metric not in (*about.logged, *about.tensors)]
        about = replace(about, facts=tuple(measured(connection, (), quantities, scopes, about.parts)))
    found = sorted(
        (*_measured(about, by), *_recorded(connection, about)),
        key=lambda one: about.sort_key(*one[:3]),
    )
    made = (
        Bar(
            about.title(label), about.ids(label), about.styles[label], metric, about.unit(metric), scope, *statistics,
            simulated=about.simulated(metric, label), profiled=about.profiled(label),
        )
        for metric, label, scope, statistics in found
    )  # fmt: skip
    return Bars(by, about.metrics, tuple(made), about.left_out, about.notices, about.titles)


# More points than a run has steps.
_ALL_POINTS = 1 << 30

Statistics = tuple[float, float, float, float | None]
Found = tuple[str, str, str, Statistics]


def _measured(about: Subject, by: str) -> Iterator[Found]:
    for label, group in about.groups.items():
        ids = [run.run_id for run in group]
        mine: dict[tuple[str, str], list[Measured]] = {}
        for one in about.facts:
            if one.run_id in ids:
                mine.setdefault((one.quantity, one.scope), []).append(one)
        for (quantity, scope), facts in mine.items():
            if by == "run":
                [one] = facts
                yield quantity, label, scope, (one.mean, one.min, one.max, one.p95)
            elif all(
                any(one.quantity == quantity and one.run_id == run for one in about.facts)
                for run in _due(quantity, group)
            ):
                yield quantity, label, scope, _together([one.mean for one in facts])


def _due(quantity: str, group: Sequence[RunInfo]) -> Iterator[str]:
    """Yield the ids of the runs that should have a quantity: a run without GPUs has none of them."""
    return (run.run_id for run in group if run.devices or not quantity.startswith("gpu_"))


def _recorded(connection: Connection, about: Subject) -> Iterator[Found]:
    """Yield bars of the last values, by label and metric."""
    last = _logged(connection, about) | _tensors(connection, about)
    program = {run: work.program for run, work in works(connection, about.run_ids).items()}
    for label, group in about.groups.items():
        for metric in dict.fromkeys((*about.logged, *about.tensors)):
            values = {run.run_id: last[run.run_id, metric] for run in group if (run.run_id, metric) in last}
            programs = {program[run] for run in values}
            # A run of another program has none to log.
            due = [run.run_id for run in group if program[run.run_id] in programs]
            finite = [value for value in values.values() if value is not None]
            if finite and len(finite) == len(values) and values.keys() >= set(due):
                yield metric, label, "", _together(finite)


def _logged(connection: Connection, about: Subject) -> dict[tuple[str, str], float | None]:
    return {
        (one.run_id, one.key): one.value
        for one in final_metrics(connection, about.run_ids, parts=about.parts)
        if one.key in about.logged
    }


def _tensors(connection: Connection, about: Subject) -> dict[tuple[str, str], float | None]:
    last: dict[tuple[str, str], float | None] = {}
    for name, metric in about.tensors.items():
        if metric.several:
            raise BadRequest(f"{name!r} is {len(metric.names)} tensors: name one of them, or draw lines")
        for run_id, points in _points(connection, about, name, metric).items():
            part = about.parts[run_id] if about.parts is not None else None
            inside = [value for x, value in points if part is None or part.holds(x)]
            if inside:
                last[run_id, name] = None if math.isnan(inside[-1]) else inside[-1]
    return last


def _points(
    connection: Connection, about: Subject, name: str, metric: TensorMetric
) -> dict[str, list[tuple[float, float]]]:
    """Return the points of a tensor by run id: seconds since the start, and the value."""
    having = [run_id for run_id in about.run_ids if run_id in metric.runs]
    if metric.name.collection == "losses" and metric.name.reduction == "mean":
        return {
            run_id: points for (run_id, tensor), points in losses(connection, having).items() if tensor in metric.names
        }
    ids = {run.full_label: run.run_id for group in about.groups.values() for run in group}
    return {
        ids[curve.label]: list(zip(curve.x, curve.value, strict=True))
        for curve in tensor_curves(connection, having, name, metric.selection, _ALL_POINTS)
    }


def _together(values: Sequence[float]) -> Statistics:
    return statistics.fmean(values), min(values), max(values), None
