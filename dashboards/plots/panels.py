"""How a chart is laid out, for paper and for the browser alike: a panel a metric, and each run alike in all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dashboards.plots.axes import Axis, figure_axis, time_axis
from dashboards.tables import SIMULATED
from insight.chart import Chart, Floats, Series

__all__ = ["Layout", "Line", "Panel", "lay_out"]

# Behind the name of a run; see `dashboards.tables` for the other mark.
PROFILED = " ◆"
# How many usual distances apart two points are not joined any more: between them nothing was measured.
_GAP = 3.5


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a panel, in the units of its axes; `key` is the index of its entry in the legend.

    A point without a figure (NaN) ends a stroke.
    """

    key: int
    x: Floats
    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Panel:
    """What is drawn into one frame; `from_zero` where the axis of figures begins at 0."""

    axis: Axis
    from_zero: bool
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A chart as it is drawn: its panels above each other, their common axis, and the entries of the legend.

    Attributes
    ----------
    begins
        Where the common axis does: at 0, unless that is far off, as in a run that goes on from step 100,000.
    """

    x: Axis
    begins: float
    panels: tuple[Panel, ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]


def lay_out(chart: Chart) -> Layout:
    """Return how a chart is drawn."""
    several = {(one.label, one.metric, one.scope) for one in chart.series}
    scoped = len(several) > len({(label, metric) for label, metric, _ in several})
    names = [f"{one.label} ({one.scope})" if scoped and one.scope else one.label for one in chart.series]
    legend = {name: at for at, name in enumerate(dict.fromkeys(names))}
    simulated = {name for name, one in zip(names, chart.series, strict=True) if one.simulated}
    profiled = {name for name, one in zip(names, chart.series, strict=True) if one.profiled}
    first, last = min(float(one.x[0]) for one in chart.series), max(float(one.x[-1]) for one in chart.series)
    x = time_axis(chart.align, last)
    panels = []
    for metric in chart.metrics:
        mine = [(legend[name], one) for name, one in zip(names, chart.series, strict=True) if one.metric == metric]
        if mine:
            panels.append(_panel(metric, mine, x))
    marked = [name + SIMULATED * (name in simulated) + PROFILED * (name in profiled) for name in legend]
    begins = 0.0 if first < last / 2 else first / x.size
    return Layout(x, begins, tuple(panels), tuple(marked), chart.notes)


def _panel(metric: str, series: list[tuple[int, Series]], x: Axis) -> Panel:
    unit = series[0][1].unit
    axis = figure_axis(metric, unit, max(float(np.abs(one.high).max()) for _, one in series))
    least = min(float(one.low.min()) for _, one in series)
    from_zero = bool(unit) and unit != "celsius" and least >= 0
    return Panel(axis, from_zero, tuple(_line(key, one, x, axis) for key, one in series))


def _line(key: int, one: Series, x: Axis, y: Axis) -> Line:
    line = Line(key, one.x / x.size, one.value / y.size, one.low / y.size, one.high / y.size)
    distances = np.diff(line.x)
    if not one.unit or len(distances) < 2:  # what a script logs, it logs when it likes
        return line
    gaps = np.flatnonzero(distances > _GAP * np.median(distances)) + 1
    middle = (line.x[gaps - 1] + line.x[gaps]) / 2
    value, low, high = (np.insert(some, gaps, np.nan) for some in (line.value, line.low, line.high))
    return replace(line, x=np.insert(line.x, gaps, middle), value=value, low=low, high=high)
