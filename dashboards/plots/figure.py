"""Figures drawn with matplotlib, as SVG and PDF with searchable text, or as PNG."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D

from hypergauge.dashboards.palette import DASHES
from hypergauge.dashboards.plots.panels import BarLayout, Layout
from hypergauge.dashboards.plots.styles import Style, applied

__all__ = ["ENDINGS", "Looks", "draw", "em", "empty", "saved"]

ENDINGS = (".svg", ".pdf", ".png")

# With more panels than this there are two columns; longer legends need the width of a page.
_MOST_ABOVE_EACH_OTHER, _MOST_IN_A_COLUMN = 2, 12
# Panels of bars are side by side, so that their names appear once. At most this many fit.
_MOST_ABREAST = 3
# More overlapping bands cannot be told apart.
_MOST_BANDS = 8
# In ems: height of a line, and width of most letters. In lines: height of a bar.
_LINE, _LETTER, _BAR = 1.3, 0.54, 1.4
# Without date and version, the same figure has the same bytes.
_METADATA: dict[str, dict[str, str | None]] = {
    ".svg": {"Date": None, "Creator": "hypergauge"},
    ".pdf": {"CreationDate": None, "Creator": "hypergauge", "Producer": None},
    ".png": {"Software": "hypergauge"},
}


@dataclass(frozen=True, slots=True)
class Looks:
    """Look of a figure.

    Attributes
    ----------
    style
        Name of a style of `hypergauge.dashboards.plots.styles.STYLES` or of matplotlib, or path of a matplotlib style file.
    size
        Width and height in inches; by default those of the style for this number of panels.
    notes
        Whether the notes are below the figure.
    """

    style: str = "paper"
    size: tuple[float, float] | None = None
    title: str = ""
    notes: bool = True


_PLAIN = Looks()


def draw(layout: Layout | BarLayout, ending: str, looks: Looks = _PLAIN) -> bytes:
    """Return a layout as a file of the type `ending`, one of `ENDINGS`.

    Raises
    ------
    BadRequest
        There is no such style.
    """
    with applied(looks.style) as style:
        return saved(
            _lines(layout, style, looks) if isinstance(layout, Layout) else _bars(layout, style, looks), ending
        )


def saved(figure: Figure, ending: str) -> bytes:
    """Return a figure as a file of the type `ending`, one of `ENDINGS`."""
    file = io.BytesIO()
    figure.savefig(file, format=ending.removeprefix("."), metadata=_METADATA[ending])
    return file.getvalue()


def _lines(layout: Layout, style: Style, looks: Looks) -> Figure:
    count = len(layout.panels)
    columns = 1 if count <= _MOST_ABOVE_EACH_OTHER else 2
    rows = math.ceil(count / columns)
    narrow = columns == 1 and len(layout.legend) <= _MOST_IN_A_COLUMN
    width = looks.size[0] if looks.size else style.column if narrow else style.page
    abreast = _abreast(layout.legend, width)
    head = math.ceil(len(layout.legend) / abreast)
    figure = empty(layout.notes, looks, width, style.row * rows + head * _LINE * em())
    axes = list(figure.subplots(rows, columns, sharex=True, squeeze=False).flat)
    for one, panel in zip(axes, layout.panels, strict=False):
        for line in panel.lines:
            look = _look(line.key)
            one.plot(line.x, line.value, marker="." if len(line.x) == 1 else "", **look)
            if line.ended_early:
                one.plot(line.x[-1:], line.value[-1:], "x", color=look["color"])
            if len(panel.lines) <= _MOST_BANDS:
                one.fill_between(line.x, line.low, line.high, color=look["color"], alpha=0.18, linewidth=0)
        one.set_ylabel(panel.axis.title)
        if panel.from_zero:
            one.set_ylim(bottom=0)
    for one in axes[max(0, count - columns) : count]:
        one.set_xlabel(layout.x.title)
        one.tick_params(labelbottom=True)
    axes[0].set_xlim(left=layout.begins)  # after all curves: a limit ends the scaling of the common axis
    _remove(axes[count:])
    figure.align_ylabels(axes[:count])
    strokes = [Line2D([], [], label=name, **_look(key)) for key, name in enumerate(layout.legend)]
    legend = figure.legend(
        handles=strokes, loc="outside upper left", ncols=abreast, title=looks.title, alignment="left"
    )
    legend.get_title().set_fontsize(rcParams["figure.titlesize"])
    return figure


def _bars(layout: BarLayout, style: Style, looks: Looks) -> Figure:
    count = len(layout.panels)
    columns = min(count, _MOST_ABREAST)
    rows = math.ceil(count / columns)
    width = looks.size[0] if looks.size else style.column if count == 1 else style.page
    figure = empty(layout.notes, looks, width, rows * (len(layout.names) * _BAR + 2) * _LINE * em())
    axes = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    ground, ink, thin = rcParams["axes.facecolor"], rcParams["text.color"], rcParams["lines.linewidth"]
    for one, panel in zip(axes, layout.panels, strict=False):
        for key, bar in panel.bars:
            one.barh(key, bar.value, 0.7, color=_look(key)["color"])
            for color, times in ((ground, 2.0), (ink, 0.8)):  # visible on the bar and beside it
                one.hlines(key, bar.low, bar.high, color=color, linewidth=times * thin)
                if bar.p95 is not None:
                    one.vlines(bar.p95, key - 0.25, key + 0.25, color=color, linewidth=times * thin)
        one.set_xlabel(panel.axis.title)
        one.set_yticks(range(len(layout.names)), layout.names)
        one.grid(visible=False, axis="y")
        one.tick_params(axis="y", length=0)
    axes[0].set_ylim(len(layout.names) - 0.5, -0.5)  # the first bar is on top
    _remove(axes[count:])
    if looks.title:
        figure.suptitle(looks.title, x=0.01, ha="left")
    return figure


def empty(notes: Sequence[str], looks: Looks, width: float, height: float) -> Figure:
    """Return an empty figure with notes. Its default height is the panels' `height` plus notes and title."""
    below = [
        line for note in (notes if looks.notes else ()) for line in textwrap.wrap(note, int(width / (_LETTER * em())))
    ]
    lines = len(below) + 1.5 * bool(looks.title) + 2  # two lines are for the common axis
    size = looks.size or (width, height + lines * _LINE * em())
    figure = Figure(figsize=size, layout="constrained")
    if below:
        figure.supxlabel("\n".join(below), x=0.01, ha="left", size=rcParams["legend.fontsize"])
    return figure


def _remove(axes: Sequence[Axes]) -> None:
    for one in axes:
        one.remove()


def _look(key: int) -> dict[str, Any]:
    """Return color and stroke of a legend entry's curves: each color with a solid line, then with dashed ones."""
    colors = rcParams["axes.prop_cycle"].by_key().get("color", ["C0"])
    again, color = divmod(key, len(colors))
    dashes = DASHES[again % len(DASHES)]
    return {"color": colors[color], "linestyle": (0, dashes) if dashes else "-"}


def em() -> float:
    """Return the size of letters in legends and notes, in inches."""
    points: float = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    return points / 72


def _abreast(names: Sequence[str], width: float) -> int:
    """Return the number of legend entries that fit side by side."""
    longest = max(map(len, names)) * _LETTER + rcParams["legend.handlelength"] + rcParams["legend.columnspacing"] + 1
    return max(1, min(len(names), int(width / (longest * em()))))
