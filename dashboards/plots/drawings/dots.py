"""Figures of values of whole runs: dots with whiskers, a row per run or workload."""

from __future__ import annotations

import math

from matplotlib import rcParams
from matplotlib.figure import Figure

from hypergauge.dashboards.plots.canvas import LINE, Looks, em, empty, look, remove
from hypergauge.dashboards.plots.rows import BarLayout
from hypergauge.dashboards.plots.styles import Style

__all__ = ["draw_dots"]

# Panels are side by side, so that their names appear once. At most this many fit.
_MOST_ABREAST = 3
# In lines: height of a row, of few and of many.
_ROW, _CLOSE, _FEW = 1.4, 1.15, 20


def draw_dots(layout: BarLayout, style: Style, looks: Looks) -> Figure:
    """Return a figure of values with their ranges, in the applied style."""
    count, rows = len(layout.panels), len(layout.rows)
    columns = min(count, _MOST_ABREAST)
    above = math.ceil(count / columns)
    width = looks.size[0] if looks.size else style.column if count == 1 else style.page
    row = (_ROW if rows <= _FEW else _CLOSE) * LINE * em()
    figure = empty(layout.notes, looks, width, above * (rows * row + 2 * LINE * em()))
    axes = list(figure.subplots(above, columns, sharey=True, squeeze=False).flat)
    thin = rcParams["lines.linewidth"]
    for one, panel in zip(axes, layout.panels, strict=False):
        for key, bar in panel.bars:
            kind = look(layout.rows[key].style)
            one.hlines(key, bar.low, bar.high, linewidth=thin, alpha=0.75, **kind)
            if bar.p95 is not None:
                one.vlines(bar.p95, key - 0.28, key + 0.28, color=kind["color"], linewidth=1.3 * thin)
            one.plot(bar.value, key, "o", color=kind["color"], markersize=0.6 * rcParams["font.size"], clip_on=False)
        one.set_xlabel(panel.axis.title)
        one.set_yticks(range(rows), [entry.name for entry in layout.rows])
        one.grid(visible=False, axis="y")
        one.tick_params(axis="y", length=0)
        one.margins(x=0.03)
        if panel.from_zero:
            one.set_xlim(left=0)
    axes[0].set_ylim(rows - 0.5, -0.5)  # the first row is on top
    remove(axes[count:])
    if looks.title:
        figure.suptitle(looks.title, x=0.01, ha="left")
    return figure
