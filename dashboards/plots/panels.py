"""Layout of a chart's panels, for paper and for the browser: one panel per metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hypergauge.dashboards.plots.axes import Axis, time_axis, value_axis
from hypergauge.dashboards.terminal.formatting import SIMULATED
from hypergauge.insight.charts.bars import Bar, Bars
from hypergauge.insight.charts.chart import Chart, Floats, Series

__all__ = ["BarLayout", "BarPanel", "Layout", "Line", "Panel", "lay_out", "lay_out_bars"]

# Suffix of a profiled run's name; `hypergauge.dashboards.terminal.formatting` has that of a simulated one.
PROFILED = " ◆"
# Explanation of the bars.
_READ = {
    "run": "Bars: the mean; lines: from the least to the greatest sample; marks: the 95th percentile",
    "workload": "Bars: the mean over the runs; lines: from the least to the greatest of them",
}
# Points further apart than this many median distances are not connected: measurements are missing between them.
_GAP = 3.5


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a panel, in the units of its axes; `key` is the index of its entry in the legend.

    A point without a value (NaN) interrupts the line. A cross marks the end of one that `ended_early`.
    """

    key: int
    x: Floats
    value: Floats
    low: Floats
    high: Floats
    ended_early: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves on one value axis, which begins at 0 if `from_zero`."""

    axis: Axis
    from_zero: bool
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a chart: its panels above each other, their common axis, and the entries of the legend.

    Attributes
    ----------
    begins
        Start of the common axis: 0, unless that is far away, as in a run that resumes at step 100,000.
    """

    x: Axis
    begins: float
    panels: tuple[Panel, ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BarPanel:
    """Bars on one axis, in its unit, each with the index of its name."""

    axis: Axis
    bars: tuple[tuple[int, Bar], ...]


@dataclass(frozen=True, slots=True)
class BarLayout:
    """Layout of bars: panels beside each other, and the names of the bars."""

    panels: tuple[BarPanel, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]


def lay_out(chart: Chart) -> Layout:
    """Return the layout of a chart."""
    keys, names = _names(chart.series)
    first, last = min(float(one.x[0]) for one in chart.series), max(float(one.x[-1]) for one in chart.series)
    x = time_axis(chart.align, last)
    panels = []
    for metric in chart.metrics:
        mine = [(key, one) for key, one in zip(keys, chart.series, strict=True) if one.metric == metric]
        if mine:
            panels.append(_panel(metric, mine, x))
    begins = 0.0 if first < last / 2 else first / x.size
    return Layout(x, begins, tuple(panels), names, tuple(one.text for one in chart.notices))


def lay_out_bars(found: Bars) -> BarLayout:
    """Return the layout of bars."""
    keys, names = _names(found.bars)
    panels = []
    for metric in found.metrics:
        mine = [(key, one) for key, one in zip(keys, found.bars, strict=True) if one.metric == metric]
        if mine:
            axis = value_axis(metric, mine[0][1].unit, max(abs(one.high) for _, one in mine))
            panels.append(BarPanel(axis, tuple((key, _scaled(one, axis.size)) for key, one in mine)))
    logged = "; software metrics: the last value" if any(not one.unit for one in found.bars) else ""
    return BarLayout(tuple(panels), names, (_READ[found.by] + logged, *(one.text for one in found.notices)))


def _scaled(one: Bar, size: float) -> Bar:
    p95 = None if one.p95 is None else one.p95 / size
    return replace(one, value=one.value / size, low=one.low / size, high=one.high / size, p95=p95)


def _names(some: Sequence[Series | Bar]) -> tuple[list[int], tuple[str, ...]]:
    """Return the index of each series' name, and the distinct names with their marks."""
    several = {(one.label, one.metric, one.scope) for one in some}
    scoped = len(several) > len({(label, metric) for label, metric, _ in several})
    names = [f"{one.label} ({one.scope})" if scoped and one.scope else one.label for one in some]
    marks: dict[str, str] = {}
    for name, one in zip(names, some, strict=True):
        mark = SIMULATED * one.simulated + PROFILED * one.profiled
        marks[name] = max(marks.get(name, ""), mark, key=len)
    index = {name: at for at, name in enumerate(marks)}
    return [index[name] for name in names], tuple(name + mark for name, mark in marks.items())


def _panel(metric: str, series: list[tuple[int, Series]], x: Axis) -> Panel:
    unit = series[0][1].unit
    axis = value_axis(metric, unit, max(float(np.abs(one.high).max()) for _, one in series))
    least = min(float(one.low.min()) for _, one in series)
    from_zero = bool(unit) and unit != "celsius" and least >= 0
    return Panel(axis, from_zero, tuple(_line(key, one, x, axis) for key, one in series))


def _line(key: int, one: Series, x: Axis, y: Axis) -> Line:
    line = Line(key, one.x / x.size, one.value / y.size, one.low / y.size, one.high / y.size, one.ended_early)
    distances = np.diff(line.x)
    if not one.unit or len(distances) < 2:  # scripts log their metrics at any interval
        return line
    gaps = np.flatnonzero(distances > _GAP * np.median(distances)) + 1
    middle = (line.x[gaps - 1] + line.x[gaps]) / 2
    value, low, high = (np.insert(some, gaps, np.nan) for some in (line.value, line.low, line.high))
    return replace(line, x=np.insert(line.x, gaps, middle), value=value, low=low, high=high)
