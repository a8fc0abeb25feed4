"""Figures of curves: few in their colors, many in gray with their median and quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hypergauge.dashboards.plots.canvas import (
    FAINT,
    LINE,
    Looks,
    Named,
    abreast,
    beside,
    by_rows,
    em,
    empty,
    look,
    remove,
)
from hypergauge.dashboards.plots.panels import Crowd, Entry, Layout, Line, Panel
from hypergauge.dashboards.plots.styles import Style
from hypergauge.insight.charts.chart import Floats

__all__ = ["SHARED", "draw_curves", "parts"]

# Meaning of the thin parts of a curve, and their share of its width. Another color or stroke would be that of another run.
SHARED, _THIN = "thin: GPU shared", 0.4
# With more panels than this there are two columns; longer legends need the width of a page.
_MOST_ABOVE_EACH_OTHER, _MOST_IN_A_COLUMN = 2, 12
# Panels of a parameter are smaller: at most this many side by side, and this share of a panel's height.
_MOST_FACETS, _SMALL = 4, 0.85
# More overlapping bands cannot be distinguished.
_MOST_BANDS = 8
# Width of the median, in lines, and opacity of its band.
_STRONG, _BAND = 1.6, 0.15
# Height of a panel without its labels.
_INNER = 0.75


def draw_curves(layout: Layout, style: Style, looks: Looks) -> Figure:
    """Return a figure of curves, in the applied style."""
    count = len(layout.panels)
    columns = _columns(layout)
    rows = math.ceil(count / columns)
    handles = _handles(layout)
    narrow = columns == 1 and len(handles) <= _MOST_IN_A_COLUMN
    width = looks.size[0] if looks.size else style.column if narrow else style.page
    side_by_side = abreast([label for label, _ in handles], width)
    head = math.ceil(len(handles) / side_by_side)
    height = style.row * (_SMALL if layout.facets else 1)
    figure = empty(layout.notes, looks, width, height * rows + head * LINE * em())
    inner = (figure.get_figheight() - head * LINE * em()) / rows
    axes = list(figure.subplots(rows, columns, sharex=True, sharey=layout.facets, squeeze=False).flat)
    for one, panel in zip(axes, layout.panels, strict=False):
        _panel(one, panel, layout.legend)
    for at, (one, panel) in enumerate(zip(axes, layout.panels, strict=False)):
        if panel.title:
            one.set_title(panel.title)
        if not layout.facets or at % columns == 0:
            one.set_ylabel(panel.axis.title)
        if panel.from_zero:
            one.set_ylim(bottom=0)
    for one in axes[max(0, count - columns) : count]:
        one.set_xlabel(layout.x.title)
        one.tick_params(labelbottom=True)
    axes[0].set_xlim(left=layout.begins)  # after all curves: a limit ends the scaling of the common axis
    for one, panel in zip(axes, layout.panels, strict=False):
        if panel.crowd:
            _names(one, panel.lines, panel.crowd, layout.legend, _INNER * (inner if looks.size else height))
    remove(axes[count:])
    figure.align_ylabels(axes[:count])
    handles = by_rows(handles, side_by_side)
    legend = figure.legend(
        [handle for _, handle in handles], [label for label, _ in handles], loc="outside upper left", ncols=side_by_side,
        title=looks.title, alignment="left",
    )  # fmt: skip
    legend.get_title().set_fontsize(rcParams["figure.titlesize"])
    return figure


def parts(line: Line) -> list[tuple[Floats, Floats, bool]]:
    """Return the parts of a curve: positions, values, and whether other runs used its GPU there."""
    if not line.shared:
        return [(line.x, line.value, False)]
    edges = [edge for part in line.shared for edge in part if line.x[0] < edge < line.x[-1]]
    x = np.union1d(line.x, edges)
    value = np.interp(x, line.x, line.value)
    inside = np.any([(first <= x) & (x <= last) for first, last in line.shared], axis=0)
    between = np.any([(first < x) & (x < last) for first, last in line.shared], axis=0)
    alone, together = np.where(between, np.nan, value), np.where(inside, value, np.nan)
    return [(x, some, shared) for some, shared in ((alone, False), (together, True)) if not np.isnan(some).all()]


def _columns(layout: Layout) -> int:
    count = len(layout.panels)
    if layout.facets:
        return min(_MOST_FACETS, math.ceil(math.sqrt(count)))
    return 1 if count <= _MOST_ABOVE_EACH_OTHER else 2


def _panel(axes: Axes, panel: Panel, legend: Sequence[Entry]) -> None:
    named = {line.key for line in panel.lines} if panel.crowd is None else set(panel.crowd.named)
    for line in panel.lines:
        if line.key not in named:
            axes.plot(line.x, line.value, color=FAINT, linewidth=0.5 * rcParams["lines.linewidth"], alpha=0.5)
            if line.ended_early:
                axes.plot(line.x[-1:], line.value[-1:], "x", color=FAINT, markersize=3)
    for line in panel.lines:
        if line.key in named:
            _line(axes, line, legend[line.key], band=len(panel.lines) <= _MOST_BANDS)
    if panel.crowd:
        ink, found = rcParams["text.color"], panel.crowd.spread
        axes.fill_between(found.x, found.low, found.high, color=ink, alpha=_BAND, linewidth=0)
        axes.plot(found.x, found.median, color=ink, linewidth=_STRONG * rcParams["lines.linewidth"])


def _line(axes: Axes, line: Line, entry: Entry, *, band: bool) -> None:
    kind = look(entry.style)
    for x, value, shared in parts(line):
        marker = "." if len(line.x) == 1 else ""
        width = rcParams["lines.linewidth"] * (_THIN if shared else 1)
        axes.plot(x, value, marker=marker, linewidth=width, solid_capstyle="butt", **kind)
    if line.ended_early:
        axes.plot(line.x[-1:], line.value[-1:], "x", color=kind["color"])
    if band:
        axes.fill_between(line.x, line.low, line.high, color=kind["color"], alpha=0.18, linewidth=0)


def _names(axes: Axes, lines: Sequence[Line], crowd: Crowd, legend: Sequence[Entry], height: float) -> None:
    ends = []
    for line in lines:
        if line.key in crowd.named:
            last = int(np.flatnonzero(~np.isnan(line.value))[-1])
            entry = legend[line.key]
            ends.append(Named(float(line.x[last]), float(line.value[last]), entry.name, look(entry.style)["color"]))
    beside(axes, ends, height)


def _handles(layout: Layout) -> list[tuple[str, Any]]:
    """Return the legend: curves without a name beside their panel, and what else needs an explanation."""
    listed = {line.key for panel in layout.panels if not panel.crowd for line in panel.lines}
    handles: list[tuple[str, Any]] = [
        (one.name, Line2D([], [], **look(one.style))) for key, one in enumerate(layout.legend) if key in listed
    ]
    ink = rcParams["text.color"]
    if layout.spread:
        label = layout.spread[0].upper() + layout.spread[1:]
        strong = Line2D([], [], color=ink, linewidth=_STRONG * rcParams["lines.linewidth"])
        handles.append((label, (Patch(color=ink, alpha=_BAND, linewidth=0), strong)))
    if layout.shared:
        handles.append((SHARED, Line2D([], [], color=ink, linewidth=_THIN * rcParams["lines.linewidth"])))
    return handles
