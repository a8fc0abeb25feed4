"""Curves of runs and workloads on a chart's axis, from samples, software metrics and tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hypergauge.insight.charts.tensors import TensorMetric
from hypergauge.sql.queries.charts.axes import Span, positions
from hypergauge.sql.queries.charts.chart_styles import shared_times
from hypergauge.sql.queries.charts.charts import Bounds, Curve, Measured, run_curves, software_curves, workload_curves
from hypergauge.sql.queries.charts.tensors import tensor_curves
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Drawing", "hardware", "recorded", "shared", "within"]

# Maximum number of points of a software metric over a whole run, of which a part is drawn.
_MOST_POINTS = 100_000


@dataclass(frozen=True, slots=True)
class Drawing:
    """Options of curves: see `hypergauge.insight.charts.chart.chart`.

    Attributes
    ----------
    bounds
        Part of the axis, and of each run by id.
    parts
        Part of each run by its label; ``None`` for whole runs.
    logged_points
        Number of points of a software metric over a whole run, so that its part has about `points`.
    """

    by: str
    align: str
    scopes: Sequence[str] | None
    points: int
    bounds: Bounds = field(default_factory=Bounds)
    parts: Mapping[str, RunPart] | None = None
    logged_points: int | None = None


def within(
    connection: Connection,
    how: Drawing,
    parts: Mapping[str, RunPart],
    runs: Sequence[RunInfo],
) -> tuple[Drawing, dict[str, Span]]:
    """Return the options and the axes of a part of each run. Runs without a position in their part are missing."""
    by_label = {run.full_label: parts[run.run_id] for run in runs}
    known = {} if how.align == "time" else positions(connection, list(parts), how.align, how.points)
    found: dict[str, Span] = {}
    for run in runs:
        part = parts[run.run_id]
        ends = (part.starts[0], part.ends[-1])
        first, last = ends if how.align == "time" else np.interp(ends, *known[run.full_label]).tolist()
        if first < last:
            found[run.run_id] = Span(run.run_id, first, last, ends[1] - ends[0])
    start = min((one.first for one in found.values()), default=None)
    # The last sample of a run comes after its end.
    open_ = any(part.reaches_end for part in parts.values())
    stop = None if open_ else max((one.last for one in found.values()), default=None)
    share = min(parts[run.run_id].seconds / (run.duration or 1.0) for run in runs)
    logged = min(_MOST_POINTS, math.ceil(how.points / max(share, 1e-6)))
    inside = {run_id: parts[run_id] for run_id in found}
    return replace(how, bounds=Bounds(start, stop, inside), parts=by_label, logged_points=logged), found


def hardware(connection: Connection, facts: Sequence[Measured], axes: Mapping[str, Span], how: Drawing) -> list[Curve]:
    """Return the curves of the quantities in `facts`, for the runs in `axes` or their workloads."""
    if not facts or not axes:
        return []
    # More points than samples add nothing: fast runs pass many positions between two samples.
    interval = min(one.interval for one in facts) * min((one.last - one.first) / one.seconds for one in axes.values())
    step = _round(max(*((one.last - one.first) / how.points for one in axes.values()), interval))
    query = run_curves if how.by == "run" else workload_curves
    return query(
        connection, list(axes), sorted({one.quantity for one in facts}), step, how.scopes, how.align, how.bounds
    )


def recorded(
    connection: Connection, run_ids: Sequence[str], keys: Sequence[str], tensors: Mapping[str, TensorMetric], how: Drawing
) -> list[Curve]:  # fmt: skip
    """Return the curves of software metrics and of tensors, for runs or their workloads.

    The scopes of a metric of several tensors are the tensors.
    """
    points = how.logged_points or how.points
    curves = software_curves(connection, run_ids, keys, points) if keys else []
    for name, metric in tensors.items():
        having = [run_id for run_id in run_ids if run_id in metric.runs]
        some = tensor_curves(connection, having, name, metric.selection, points)
        curves += some if metric.several else [replace(one, scope="") for one in some]
    return _drawn(connection, run_ids, curves, how)


def _drawn(connection: Connection, run_ids: Sequence[str], curves: list[Curve], how: Drawing) -> list[Curve]:
    """Return curves over the time since each run's start as curves on the axis, of runs or their workloads."""
    if not curves:
        return []
    if how.parts is not None:
        curves = [one for curve in curves if (one := _inside(curve, how.parts[curve.label])).x]
    if how.align != "time":
        axes = positions(connection, run_ids, how.align, how.points)
        curves = [one for curve in curves if (one := _placed(curve, *axes[curve.label])).x]
    if how.by == "run":
        return curves
    gathered: dict[tuple[str, str, str], list[Curve]] = {}
    for curve in curves:
        workload = curve.label.rpartition("/")[0]
        gathered.setdefault((workload, curve.metric, curve.scope), []).append(curve)
    return [_mean(*key, some, how.points) for key, some in gathered.items()]


def shared(connection: Connection, run_ids: Sequence[str], how: Drawing) -> dict[str, list[tuple[float, float]]]:
    """Return the parts of the axis where other runs used a GPU of a run, by label."""
    found = shared_times(connection, run_ids) if run_ids else {}
    if how.align == "time" or not found:
        return found
    axes = positions(connection, run_ids, how.align, how.points)
    return {
        label: [(first, last) for first, last in np.interp(parts, *axes[label]).tolist() if first < last]
        for label, parts in found.items()
        if label in axes
    }


def _inside(curve: Curve, part: RunPart) -> Curve:
    """Return a curve over the time since a run's start, without points outside a part of the run."""
    return _taken(curve, [at for at, x in enumerate(curve.x) if part.holds(x)])


def _placed(curve: Curve, seconds: Sequence[float], position: Sequence[float]) -> Curve:
    """Return a curve over the time since a run's start on another axis, without points outside that axis."""
    inside = [at for at, x in enumerate(curve.x) if seconds[0] <= x <= seconds[-1]]
    taken = _taken(curve, inside)
    return replace(taken, x=np.interp(taken.x, seconds, position).tolist())


def _taken(curve: Curve, points: Sequence[int]) -> Curve:
    """Return some of the points of a curve."""
    x, value, low, high = ([some[at] for at in points] for some in (curve.x, curve.value, curve.low, curve.high))
    return replace(curve, x=x, value=value, low=low, high=high)


def _mean(label: str, metric: str, scope: str, curves: Sequence[Curve], points: int) -> Curve:
    """Return the mean and range of curves, each interpolated linearly between its points."""
    x = np.unique(np.concatenate([curve.x for curve in curves]))
    if len(x) > 2 * points:
        x = np.linspace(x[0], x[-1], points)
    value, low, high = (
        np.array([np.interp(x, curve.x, getattr(curve, name), math.nan, math.nan) for curve in curves])
        for name in ("value", "low", "high")
    )
    there = ~np.isnan(value).all(axis=0)
    means = np.full((3, len(x)), math.nan)  # NaN where no curve has a value, for a gap
    means[:, there] = np.nanmean(value[:, there], 0), np.nanmin(low[:, there], 0), np.nanmax(high[:, there], 0)
    return Curve(label, metric, scope, x.tolist(), *means.tolist())


def _round(step: float) -> float:
    """Return the smallest of …, 0.5, 1, 2, 5, 10, 20, … that is at least `step`."""
    power: float = 10.0 ** math.floor(math.log10(step))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= step * 0.999)
