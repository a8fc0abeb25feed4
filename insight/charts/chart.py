"""Data of a chart: curves of runs or workloads on a common axis, with notices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hypergauge.core.errors import NoData
from hypergauge.insight.charts.curves import Drawing, hardware, recorded, shared, within
from hypergauge.insight.charts.subject import Subject, subject
from hypergauge.insight.part import Part
from hypergauge.sql.queries.charts.chart_styles import ChartStyle
from hypergauge.sql.queries.charts.charts import Curve
from hypergauge.sql.queries.notices import Notice
from hypergauge.sql.queries.summaries import final_metrics
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Chart", "Series", "chart"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve.

    Attributes
    ----------
    label
        Label of its run or workload, with names: ``20/1/3 wide``.
    runs
        Ids of its runs.
    style
        Color and stroke of its run or workload.
    metric, unit, scope
        Metric with its unit and scope; a software metric has neither unit nor scope. The scope of one of several tensors is its
        name.
    x
        Ascending, shape ``(n,)``: seconds, steps or epochs, by the chart's axis.
    value, low, high
        Shape ``(n,)``, in the canonical unit: mean, minimum and maximum of the samples at each point. The mean of a workload
        is that over its runs at that time.
    simulated
        Whether its values are those of simulated GPUs.
    profiled
        Whether a profiler was attached to one of its runs.
    ended_early
        Whether its runs have failed, were stopped or reached a time limit.
    shared
        Parts of the axis, each from its first to its last position, where other runs used a GPU of this run. Empty unless
        the curve has scope ``device``.
    logged
        Whether a script recorded it, at any distance of points.
    last
        Last value of a run's software metric: NaN if it was not finite, ``None`` for any other curve. The points of a long curve
        are means.
    """

    label: str
    runs: tuple[str, ...]
    style: ChartStyle
    metric: str
    unit: str
    scope: str
    x: Floats
    value: Floats
    low: Floats
    high: Floats
    simulated: bool
    profiled: bool
    ended_early: bool
    shared: tuple[tuple[float, float], ...] = ()
    logged: bool = False
    last: float | None = None

    def points(self) -> dict[str, list[float | None]]:
        """Return the points for JSON, with ``None`` for NaN."""
        return {
            name: [None if math.isnan(number) else number for number in getattr(self, name).tolist()]
            for name in ("x", "value", "low", "high")
        }


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves on a common axis.

    Attributes
    ----------
    by, align
        ``run`` or ``workload``, and the axis: see `chart`.
    metrics
        Requested metrics, in that order.
    series
        Curves by metric, then in the order of the runs.
    left_out
        Labels of the runs or workloads beyond the limit.
    notices
        Facts without which the chart would mislead.
    labels
        Labels of the series' runs or workloads, in the order of selection.
    part
        Drawn part of each run; ``None`` for whole runs.
    """

    by: str
    align: str
    metrics: tuple[str, ...]
    series: tuple[Series, ...]
    left_out: tuple[str, ...]
    notices: tuple[Notice, ...]
    labels: tuple[str, ...] = ()
    part: Part | None = None

    def as_dict(self, *, points: bool = False) -> dict[str, Any]:
        """Return the JSON object, with the number of points of each curve, or with all `points`."""
        series = [
            {
                "label": one.label, "runs": one.runs, **asdict(one.style), "metric": one.metric, "unit": one.unit, "scope": one.scope,
                "points": len(one.x), "simulated": one.simulated, "profiled": one.profiled, "ended_early": one.ended_early,
                "shared": one.shared,
                **(one.points() if points else {}),
            }
            for one in self.series
        ]  # fmt: skip
        notices = [asdict(one) for one in self.notices]
        return {"by": self.by, "align": self.align, "series": series, "left_out": self.left_out, "notices": notices}


def chart(
    connection: Connection,
    runs: Sequence[RunInfo],
    metrics: Sequence[str],
    *,
    by: str = "run",
    align: str = "time",
    scopes: Sequence[str] | None = None,
    max_series: int = 40,
    points: int = 600,
    part: Part | None = None,
) -> Chart:
    """Return the curves of runs, or of the workloads that they belong to.

    Parameters
    ----------
    metrics
        Quantities of the catalog (``gpu_power``), keys of software metrics (``loss``), or metrics of tensors
        (``gradient_norm``, ``gradients/*/l2``): see `hypergauge.insight.charts.tensors`.
    by
        ``run``, or ``workload`` for the latest attempts of all rows of the runs' workloads.
    align
        Common axis: ``time`` since the start, ``step``, ``epoch``, or the time since the training started (``phase``) or
        another phase started (``phase:NAME``).
    scopes
        Some of `hypergauge.insight.comparison.columns.SCOPES`; by default the narrowest of each run and quantity.
    max_series
        Maximum number of runs or workloads: the first that have any of the metrics.
    points
        Approximate maximum number of points per curve.
    part
        Part of each run to draw; by default whole runs.

    Raises
    ------
    BadRequest
        The runs have no such metric or part, or an option is unknown.
    NoData
        None of the runs has started, has the axis, or has samples.
    """
    about = subject(connection, runs, metrics, by=by, align=align, scopes=scopes, max_series=max_series, part=part)
    how, axes = Drawing(by, align, scopes, points), about.axes
    if about.parts is not None:
        how, axes = within(connection, how, about.parts, [run for some in about.groups.values() for run in some])
    curves = [
        *hardware(connection, about.facts, axes, how),
        *recorded(connection, about.run_ids, about.logged, about.tensors, how),
    ]
    if not curves:
        raise NoData(f"the selected runs have no samples of {' or '.join(about.metrics)} there")
    curves.sort(key=lambda curve: about.sort_key(curve.metric, curve.label, curve.scope))
    together = {curve.label for curve in curves if curve.scope == "device"} if by == "run" else ()
    parts = shared(connection, [run_id for label in together for run_id in about.ids(label)], how)
    last = _last_values(connection, about) if by == "run" else {}
    series = tuple(
        _series(about, c, parts.get(c.label, ()) if c.scope == "device" else (), last.get((c.label, c.metric)))
        for c in curves
    )
    return Chart(by, align, about.metrics, series, about.left_out, about.notices, about.titles, part)


def _last_values(connection: Connection, about: Subject) -> dict[tuple[str, str], float]:
    """Return the last values of the software metrics, by label and metric: NaN for one that was not finite."""
    if not about.logged:
        return {}
    labels = {run.run_id: label for label, group in about.groups.items() for run in group}
    return {
        (labels[one.run_id], one.key): math.nan if one.value is None else one.value
        for one in final_metrics(connection, about.run_ids, parts=about.parts)
        if one.key in about.logged
    }


def _series(about: Subject, curve: Curve, parts: Sequence[tuple[float, float]], last: float | None) -> Series:
    x, value, low, high = (np.array(one, np.float64) for one in (curve.x, curve.value, curve.low, curve.high))
    return Series(
        about.title(curve.label), about.ids(curve.label), about.style(curve.metric, curve.label, curve.scope), curve.metric,
        about.unit(curve.metric), curve.scope, x, value, low, high,
        simulated=about.simulated(curve.metric, curve.label), profiled=about.profiled(curve.label),
        ended_early=about.ended_early(curve.label), shared=tuple(parts),
        logged=curve.metric in about.logged or curve.metric in about.tensors, last=last,
    )  # fmt: skip
