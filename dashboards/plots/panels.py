"""Layout of a chart's panels, for paper and for the browser: one panel per metric, or per value of a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hypergauge.dashboards.palette import STROKES
from hypergauge.dashboards.plots.axes import Axis, time_axis, value_axis
from hypergauge.dashboards.terminal.formatting import SIMULATED
from hypergauge.insight.charts.bars import Bar
from hypergauge.insight.charts.chart import Chart, Floats, Series
from hypergauge.insight.charts.spread import Spread, extremes, spread
from hypergauge.sql.queries.charts.chart_styles import ChartStyle

__all__ = ["MANY", "Crowd", "Entry", "Layout", "Line", "Panel", "entries", "from_zero", "lay_out"]

# Suffix of a profiled run's name; `hypergauge.dashboards.terminal.formatting` has that of a simulated one.
PROFILED = " ◆"
# A panel with more curves has them in gray, with their median and quantiles.
MANY = 12
# Named curves of such a panel: the lowest, the highest, and of those that ended early the first.
_MOST_NAMED = 6
# Points further apart than this many median distances are not connected: measurements are missing between them.
_GAP = 3.5


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of a legend: a name with its marks, and the style of its curves."""

    name: str
    style: ChartStyle


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a panel, in the units of its axes; `key` is the index of its entry in the legend.

    A point without a value (NaN) interrupts the line. A cross marks the end of one that `ended_early`. The line is thin
    in the parts of the axis where other runs `shared` its GPU. `last` is that of `hypergauge.insight.charts.chart.Series`.
    """

    key: int
    x: Floats
    value: Floats
    low: Floats
    high: Floats
    ended_early: bool = False
    shared: tuple[tuple[float, float], ...] = ()
    last: float | None = None


@dataclass(frozen=True, slots=True)
class Crowd:
    """Highlights of many curves: their spread, and the keys of those with a color and a name."""

    spread: Spread
    named: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves on one value axis, which begins at 0 if `from_zero`; `title` is the value of a parameter, if any.

    `counts` are the outlines of a histogram: a value counts from its position to the next.
    """

    axis: Axis
    from_zero: bool
    lines: tuple[Line, ...]
    crowd: Crowd | None = None
    title: str = ""
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a chart: its panels above each other, their common axis, and the entries of the legend.

    Attributes
    ----------
    begins
        Start of the common axis: 0, unless that is far away, as in a run that resumes at step 100,000, or left out.
    by
        ``run`` or ``workload``: what a curve is.
    facets
        Whether the panels are one metric for several values of a parameter, so that they have one value axis.
    """

    x: Axis
    begins: float
    panels: tuple[Panel, ...]
    legend: tuple[Entry, ...]
    notes: tuple[str, ...]
    by: str = "run"
    facets: bool = False

    @property
    def shared(self) -> bool:
        """Return whether a part of a curve is thin, because the run shared its GPU."""
        return any(line.shared for panel in self.panels for line in panel.lines)

    @property
    def spread(self) -> str:
        """Meaning of the strong line and its band, if a panel has many curves."""
        counts = sorted(
            {panel.crowd.spread.count for panel in self.panels if panel.crowd and panel.crowd.spread.x.size}
        )
        if not counts:
            return ""
        number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return f"median and 10th\N{EN DASH}90th percentile of {number} {self.by}s"


def lay_out(chart: Chart, facets: Mapping[str, str] | None = None) -> Layout:
    """Return the layout of a chart.

    Parameters
    ----------
    facets
        Title of the panel of each run, by run id: the first metric then has a panel per title, in the order of the titles.
    """
    keys, legend = entries(chart.series, chart.labels)
    first, last = min(float(one.x[0]) for one in chart.series), max(float(one.x[-1]) for one in chart.series)
    x = time_axis(chart.align, last)
    pairs = list(zip(keys, chart.series, strict=True))
    panels = _facets(chart, pairs, x, facets) if facets else _metrics(chart, pairs, x)
    begins = 0.0 if first < last / 2 and chart.part is None else first / x.size
    notes = tuple(one.text for one in chart.notices)
    return Layout(x, begins, tuple(panels), legend, notes, chart.by, facets is not None)


def entries(some: Sequence[Series | Bar], order: Sequence[str] = ()) -> tuple[list[int], tuple[Entry, ...]]:
    """Return the index of each series' entry, and the distinct entries of the legend in the order of the labels."""
    several = {(one.label, one.metric, one.scope) for one in some}
    scoped = len(several) > len({(label, metric) for label, metric, _ in several})
    names = [f"{one.label} ({one.scope})" if scoped and one.scope else one.label for one in some]
    marks: dict[str, str] = {}
    styles: dict[str, ChartStyle] = {}
    first: dict[str, ChartStyle] = {}
    scopes: dict[str, list[str]] = {}
    for name, one in zip(names, some, strict=True):
        mark = SIMULATED * one.simulated + PROFILED * one.profiled
        marks[name] = max(marks.get(name, ""), mark, key=len)
        there = scopes.setdefault(one.label, [])
        if scoped and one.scope not in there:
            there.append(one.scope)
        # The further scopes of a run have its color, and other strokes; but tensors of a single run have colors of their own.
        further = there.index(one.scope) if scoped and one.style == first.setdefault(one.label, one.style) else 0
        styles.setdefault(name, replace(one.style, stroke=(one.style.stroke + further) % len(STROKES)))
    labels = {name: one.label for name, one in zip(names, some, strict=True)}
    ordered = sorted(marks, key=lambda name: order.index(labels[name]) if labels[name] in order else len(order))
    index = {name: at for at, name in enumerate(ordered)}
    return [index[name] for name in names], tuple(Entry(name + marks[name], styles[name]) for name in ordered)


def from_zero(unit: str, least: float) -> bool:
    """Return whether the axis of a quantity begins at 0: amounts do, temperatures and software metrics do not."""
    return bool(unit) and unit != "celsius" and least >= 0


def _metrics(chart: Chart, pairs: Sequence[tuple[int, Series]], x: Axis) -> list[Panel]:
    metrics = [[pair for pair in pairs if pair[1].metric == metric] for metric in chart.metrics]
    return [_panel(mine, x, _axis(mine)) for mine in metrics if mine]


def _facets(chart: Chart, pairs: Sequence[tuple[int, Series]], x: Axis, facets: Mapping[str, str]) -> list[Panel]:
    pairs = [pair for pair in pairs if pair[1].metric == chart.metrics[0]]
    axis = _axis(pairs)
    groups = {
        title: [pair for pair in pairs if any(facets.get(run_id) == title for run_id in pair[1].runs)]
        for title in dict.fromkeys(facets.values())
    }
    panels = [replace(_panel(mine, x, axis), title=title) for title, mine in groups.items() if mine]
    zero = all(one.from_zero for one in panels)
    return [replace(one, from_zero=zero) for one in panels]


def _axis(pairs: Sequence[tuple[int, Series]]) -> Axis:
    one = pairs[0][1]
    return value_axis(one.metric, one.unit, max(float(np.abs(other.high).max()) for _, other in pairs))


def _panel(pairs: Sequence[tuple[int, Series]], x: Axis, axis: Axis) -> Panel:
    least = min(float(one.low.min()) for _, one in pairs)
    lines = tuple(_line(key, one, x, axis) for key, one in pairs)
    # With several scopes a run has several curves, whose median would mean nothing.
    alone = len({one.runs for _, one in pairs}) == len(pairs)
    crowd = _crowd(lines) if len(lines) > MANY and alone else None
    return Panel(axis, from_zero(pairs[0][1].unit, least), lines, crowd)


def _crowd(lines: Sequence[Line]) -> Crowd:
    curves = [(line.x, line.value) for line in lines]
    early = [line.key for line in lines if line.ended_early]
    named = dict.fromkeys((*(lines[at].key for at in extremes(curves)), *early))
    return Crowd(spread(curves), tuple(named)[:_MOST_NAMED])


def _line(key: int, one: Series, x: Axis, y: Axis) -> Line:
    shared = tuple((first / x.size, last / x.size) for first, last in one.shared)
    value, low, high = one.value / y.size, one.low / y.size, one.high / y.size
    last = None if one.last is None else one.last / y.size
    line = Line(key, one.x / x.size, value, low, high, one.ended_early, shared, last)
    distances = np.diff(line.x)
    if one.logged or not one.unit or len(distances) < 2:  # scripts log their metrics at any interval
        return line
    gaps = np.flatnonzero(distances > _GAP * np.median(distances)) + 1
    middle = (line.x[gaps - 1] + line.x[gaps]) / 2
    value, low, high = (np.insert(some, gaps, np.nan) for some in (line.value, line.low, line.high))
    return replace(line, x=np.insert(line.x, gaps, middle), value=value, low=low, high=high)
