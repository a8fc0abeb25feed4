"""Heat map of slowdowns: one square per pair of configurations, one panel per kind of sharing."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hypergauge.dashboards.plots.canvas import Looks, em, empty, saved
from hypergauge.dashboards.plots.styles import applied
from hypergauge.dashboards.shades import FULL, SCALE, shade
from hypergauge.dashboards.terminal.sharing import Grid

__all__ = ["draw_heatmap"]

# In ems: height and width of a cell, which holds two short lines, and width of most letters.
_HIGH, _WIDE, _LETTER = 3.2, 7.5, 0.54
# In ems: height of the scale with its labels. Its colors, more than an eye distinguishes.
_SCALE, _STEPS = 5.0, 96
_HATCH, _GRAY = "/////", "#9a9fa6"


def draw_heatmap(grids: Sequence[Grid], notes: Sequence[str], suffix: str, looks: Looks) -> bytes:
    """Return a heat map as a file of one of the types `hypergauge.dashboards.plots.figure.SUFFIXES`.

    Raises
    ------
    BadRequest
        There is no such style.
    """
    with applied(looks.style) as style:
        columns, rows = sum(len(grid.columns) for grid in grids), max(len(grid.rows) for grid in grids)
        letters = max(len(name) for grid in grids for name in (*grid.rows, *grid.columns))
        needed = (columns * _WIDE + len(grids) * (letters * _LETTER + 3)) * em()
        width = looks.size[0] if looks.size else style.column if needed <= style.column else style.page
        unknown = any(len(grid.cells) < len(grid.rows) * len(grid.columns) for grid in grids)
        notes = [*notes, *["Hatched: not measured"] * unknown]
        figure = empty(notes, looks, width, (rows * _HIGH + letters * _LETTER + 3 + _SCALE) * em())
        panels = figure.subplots(1, len(grids), squeeze=False, width_ratios=[len(grid.columns) for grid in grids])
        for axes, grid in zip(panels.flat, grids, strict=True):
            _draw(axes, grid)
        panels.flat[0].set_ylabel("slowdown of")
        _scale(figure, list(panels.flat))
        if looks.title:
            figure.suptitle(looks.title, x=0.01, ha="left")
        return saved(figure, suffix, looks)


def _scale(figure: Figure, panels: list[Axes]) -> None:
    steps = [FULL ** (2 * (at + 0.5) / _STEPS - 1) for at in range(_STEPS)]
    colors = ScalarMappable(LogNorm(1 / FULL, FULL), ListedColormap([shade(one) for one in steps]))
    bar = figure.colorbar(colors, ax=panels, location="top", aspect=30, shrink=0.7, ticks=list(SCALE), pad=0.03)
    bar.set_ticks(list(SCALE), labels=list(SCALE.values()), minor=False)
    bar.minorticks_off()


def _draw(axes: Axes, grid: Grid) -> None:
    for row in range(len(grid.rows)):
        for column in range(len(grid.columns)):
            if (row, column) not in grid.cells:
                axes.add_patch(
                    Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, hatch=_HATCH, edgecolor=_GRAY, linewidth=0)
                )
    for (row, column), cell in grid.cells.items():
        # Without a verdict it has no color.
        face, ink = (cell.color, cell.ink) if cell.color else ("none", rcParams["text.color"])
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=face, edgecolor=rcParams["axes.facecolor"]))
        text = "\n".join(filter(None, (cell.text, cell.interval)))
        axes.text(column, row, text, ha="center", va="center", color=ink, size=rcParams["legend.fontsize"])
    axes.set_xlim(-0.5, len(grid.columns) - 0.5)
    axes.set_ylim(len(grid.rows) - 0.5, -0.5)  # the first row is on top
    axes.set_xticks(range(len(grid.columns)), grid.columns, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(grid.rows)), grid.rows)
    axes.set_xlabel("beside")
    axes.set_title(grid.sharing)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
