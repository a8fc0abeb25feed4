"""Figures of results against a parameter of the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hypergauge.dashboards.plots.axes import value_axis
from hypergauge.dashboards.plots.canvas import FAINT, LINE, Looks, abreast, by_rows, em, empty, look, remove
from hypergauge.dashboards.plots.panels import MANY, Entry, entries, from_zero
from hypergauge.dashboards.plots.styles import Style
from hypergauge.insight.charts.parameters import number
from hypergauge.insight.charts.scatter import Point, Scatter

__all__ = ["draw_scatter"]

_READ = "Dots: the mean over a run's time, or the last value of a software metric"
_ATTEMPTS = "; lines: from the least to the greatest attempt"
_EARLY = "; crosses: runs that ended early"
_MOST_ABOVE_EACH_OTHER = 2


def draw_scatter(found: Scatter, style: Style, looks: Looks) -> Figure:
    """Return a figure of results, in the applied style."""
    keys, legend = entries([one.bar for one in found.points], found.labels)
    metrics = [name for name in found.metrics if any(one.bar.metric == name for one in found.points)]
    columns = 1 if len(metrics) <= _MOST_ABOVE_EACH_OTHER else 2
    rows = math.ceil(len(metrics) / columns)
    many = len(legend) > MANY
    handles = [] if many else [_handle(one) for one in legend]
    width = looks.size[0] if looks.size else style.column if columns == 1 else style.page
    side_by_side = abreast([entry.name for entry in legend], width)
    head = math.ceil(len(handles) / side_by_side)
    figure = empty(_notes(found), looks, width, style.row * rows + head * LINE * em())
    axes = list(figure.subplots(rows, columns, sharex=True, squeeze=False).flat)
    for one, metric in zip(axes, metrics, strict=False):
        mine = [(key, p) for key, p in zip(keys, found.points, strict=True) if p.bar.metric == metric]
        _panel(one, found, mine, legend, many=many)
    for one in axes[max(0, len(metrics) - columns) : len(metrics)]:
        one.set_xlabel(found.parameter)
        one.tick_params(labelbottom=True)
    if many:
        for one, metric in zip(axes, metrics, strict=False):
            mine = [(key, p) for key, p in zip(keys, found.points, strict=True) if p.bar.metric == metric]
            _names(one, found, mine, legend)
    remove(axes[len(metrics) :])
    if handles or looks.title:
        made = figure.legend(
            handles=by_rows(handles, side_by_side),
            loc="outside upper left",
            ncols=side_by_side,
            title=looks.title,
            alignment="left",
        )
        made.get_title().set_fontsize(rcParams["figure.titlesize"])
    return figure


def _panel(
    axes: Axes, found: Scatter, points: Sequence[tuple[int, Point]], legend: Sequence[Entry], *, many: bool
) -> None:
    bar = points[0][1].bar
    axis = value_axis(bar.metric, bar.unit, max(abs(one.high) for _, one in points))
    size, stand_out = 0.6 * rcParams["font.size"], _extremes(points)
    for key, one in points:
        plain = many and key not in stand_out
        color = FAINT if plain else look(legend[key].style)["color"]
        x = _x(found, one)
        if one.attempts > 1:
            axes.vlines(
                x, one.low / axis.size, one.high / axis.size, color=color, linewidth=rcParams["lines.linewidth"]
            )
        axes.plot(x, one.value / axis.size, "x" if one.ended_early else "o", color=color, markersize=size,
                  zorder=2 if plain else 3, clip_on=False)  # fmt: skip
    axes.set_ylabel(axis.title)
    axes.margins(0.06, 0.18 if many else 0.06)
    if found.logarithmic:
        axes.set_xscale("log")
    if found.categories:
        axes.set_xticks(range(len(found.categories)), found.categories)
        axes.set_xlim(-0.5, len(found.categories) - 0.5)
    if from_zero(bar.unit, min(one.low for _, one in points)):
        axes.set_ylim(bottom=0)


def _names(axes: Axes, found: Scatter, points: Sequence[tuple[int, Point]], legend: Sequence[Entry]) -> None:
    bar = points[0][1].bar
    size = value_axis(bar.metric, bar.unit, max(abs(one.high) for _, one in points)).size
    stand_out, apart = _extremes(points), 0.5 * rcParams["font.size"]
    for key, one in points:
        if key in stand_out:
            at = (_x(found, one), one.value / size)
            right = axes.transLimits.transform(axes.transScale.transform(at))[0] > 0.5
            below = one.value == min(other.value for _, other in points)
            axes.annotate(
                legend[key].name, at, (0, -apart if below else apart), textcoords="offset points", ha="right" if right else "left",
                va="top" if below else "bottom", size=rcParams["legend.fontsize"], zorder=4,
            )  # fmt: skip


def _x(found: Scatter, one: Point) -> float:
    if found.categories:
        return float(found.categories.index(one.text))
    x = number(one.text)
    assert x is not None, "without categories, all values are numbers"
    return x


def _extremes(points: Sequence[tuple[int, Point]]) -> set[int]:
    ranked = sorted(points, key=lambda pair: pair[1].value)
    return {ranked[0][0], ranked[-1][0]}


def _handle(entry: Entry) -> Line2D:
    return Line2D([], [], label=entry.name, color=look(entry.style)["color"], marker="o", linestyle="")


def _notes(found: Scatter) -> list[str]:
    read = _READ
    if any(one.attempts > 1 for one in found.points):
        read += _ATTEMPTS
    if any(one.ended_early for one in found.points):
        read += _EARLY
    without = [f"Without {found.parameter}: {', '.join(found.left_out)}"] if found.left_out else []
    return [read, *without, *(one.text for one in found.notices)]
