"""Figures by matplotlib: SVG and PDF with their text as text, and PNG."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D

from dashboards.plots.palette import DASHES
from dashboards.plots.panels import Layout, Panel
from dashboards.plots.styles import applied

__all__ = ["ENDINGS", "draw"]

ENDINGS = (".svg", ".pdf", ".png")

# More panels than this stand beside each other as well, and more entries of a legend need the width of a page.
_MOST_ABOVE_EACH_OTHER, _MOST_IN_A_COLUMN = 2, 12
# Where more ranges overlap, nobody tells whose is which.
_MOST_BANDS = 8
# Of letters, in ems: a line's height, and the width of most.
_LINE, _LETTER = 1.3, 0.54
# No date and no version: the same picture has the same bytes.
_METADATA: dict[str, dict[str, str | None]] = {
    ".svg": {"Date": None, "Creator": "hypergauge"},
    ".pdf": {"CreationDate": None, "Creator": "hypergauge", "Producer": None},
    ".png": {"Software": "hypergauge"},
}


def draw(
    layout: Layout, ending: str, *, style: str = "paper", size: tuple[float, float] | None = None, title: str = "",
    notes: bool = True,
) -> bytes:  # fmt: skip
    """Return a figure of a chart.

    Parameters
    ----------
    ending
        One of `ENDINGS`.
    style
        The name of one of `dashboards.plots.styles.STYLES` or of matplotlib's, or the path of a file in matplotlib's form.
    size
        Width and height in inches; by default what the style has for so many panels.
    notes
        Whether what has to be said of the figures stands below them.

    Raises
    ------
    BadRequest
        There is no such style.
    """
    with applied(style) as chosen:
        columns = 1 if len(layout.panels) <= _MOST_ABOVE_EACH_OTHER else 2
        rows = math.ceil(len(layout.panels) / columns)
        narrow = columns == 1 and len(layout.legend) <= _MOST_IN_A_COLUMN
        width = size[0] if size else chosen.column if narrow else chosen.page
        abreast = _abreast(layout.legend, width)
        below = _wrapped(layout.notes if notes else (), width)
        lines = math.ceil(len(layout.legend) / abreast) + len(below) + bool(title) + 2  # two for the common axis
        height = size[1] if size else chosen.row * rows + lines * _LINE * _em()
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = list(figure.subplots(rows, columns, sharex=True, squeeze=False).flat)
        for one, panel in zip(axes, layout.panels, strict=False):
            _panel(one, panel)
        for one in axes[max(0, len(layout.panels) - columns) : len(layout.panels)]:
            one.set_xlabel(layout.x.title)
            one.set_xlim(left=layout.begins)
            one.tick_params(labelbottom=True)
        for one in axes[len(layout.panels) :]:
            one.remove()
        figure.align_ylabels(axes[: len(layout.panels)])
        strokes = [Line2D([], [], label=name, **_look(key)) for key, name in enumerate(layout.legend)]
        legend = figure.legend(handles=strokes, loc="outside upper left", ncols=abreast, title=title, alignment="left")
        legend.get_title().set_fontsize(rcParams["figure.titlesize"])
        if below:
            figure.supxlabel("\n".join(below), x=0.01, ha="left", size=rcParams["legend.fontsize"])
        file = io.BytesIO()
        figure.savefig(file, format=ending.removeprefix("."), metadata=_METADATA[ending])
        return file.getvalue()


def _panel(axes: Axes, panel: Panel) -> None:
    for line in panel.lines:
        look = _look(line.key)
        axes.plot(line.x, line.value, **look)
        if len(panel.lines) <= _MOST_BANDS:
            axes.fill_between(line.x, line.low, line.high, color=look["color"], alpha=0.18, linewidth=0)
    axes.set_ylabel(panel.axis.title)
    if panel.from_zero:
        axes.set_ylim(bottom=0)


def _look(key: int) -> dict[str, Any]:
    """Return how the curves of an entry of the legend are drawn: each colour in turn, then each once more in dashes."""
    colors = rcParams["axes.prop_cycle"].by_key().get("color", ["C0"])
    again, color = divmod(key, len(colors))
    dashes = DASHES[again % len(DASHES)]
    return {"color": colors[color], "linestyle": (0, dashes) if dashes else "-"}


def _em() -> float:
    """Return the size of letters in legends and notes, in inches."""
    points: float = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    return points / 72


def _abreast(names: Sequence[str], width: float) -> int:
    """Return how many entries of a legend fit beside each other."""
    longest = max(map(len, names)) * _LETTER + rcParams["legend.handlelength"] + rcParams["legend.columnspacing"] + 1
    return max(1, min(len(names), int(width / (longest * _em()))))


def _wrapped(notes: Sequence[str], width: float) -> list[str]:
    letters = int(width / (_LETTER * _em()))
    return [line for note in notes for line in textwrap.wrap(note, letters)]
