"""Parts that all figures have: size, notes, title, strokes, and the file."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.palette import STROKES
from hypergauge.sql.queries.charts.chart_styles import ChartStyle

__all__ = [
    "FAINT",
    "LETTER",
    "LINE",
    "SUFFIXES",
    "Looks",
    "Named",
    "abreast",
    "beside",
    "by_rows",
    "em",
    "empty",
    "look",
    "remove",
    "saved",
]

_Entry = TypeVar("_Entry")

SUFFIXES = (".svg", ".pdf", ".png")
# In ems: height of a line, and width of most letters.
LINE, LETTER = 1.3, 0.54
# Gray of curves without a name, on white and on black.
FAINT = "#9a9fa6"
# Letters of names beside a panel: of longer ones only the labels. Names of curves that end before this share of the axis are
# in the panel.
_BESIDE, _INSIDE = 14, 0.97
# Warnings of matplotlib: panels of no size, and a character that the font lacks.
_NO_ROOM, _NO_GLYPH = "axes sizes collapsed to zero", re.compile(r"Glyph (\d+) .*missing from")
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
    warn
        Receives what the file lacks, as a sentence.
    """

    style: str = "paper"
    size: tuple[float, float] | None = None
    title: str = ""
    notes: bool = True
    warn: Callable[[str], None] = field(default=lambda _: None, compare=False)


@dataclass(frozen=True, slots=True)
class Named:
    """Point with a name and the color of its curve."""

    x: float
    y: float
    name: str
    color: str


def saved(figure: Figure, suffix: str, looks: Looks) -> bytes:
    """Return a figure as a file of the type `suffix`, one of `SUFFIXES`.

    Raises
    ------
    BadRequest
        The text leaves no room for the panels.
    """
    file = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(file, format=suffix.removeprefix("."), metadata=_METADATA[suffix])
    glyphs: dict[str, None] = {}
    for one in caught:
        if _NO_ROOM in str(one.message):
            width, height = figure.get_size_inches()
            raise BadRequest(f"{width:g}x{height:g} is too small for this text: --size WIDTHxHEIGHT makes it larger")
        if missing := _NO_GLYPH.match(str(one.message)):
            glyphs[chr(int(missing[1]))] = None
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if glyphs and suffix != ".svg":  # whose reader chooses the font
        looks.warn(
            f"the font has no glyph for {''.join(glyphs)}: .svg shows them, or a style file with another font.family"
        )
    return file.getvalue()


def empty(notes: Sequence[str], looks: Looks, width: float, height: float) -> Figure:
    """Return an empty figure with notes. Its default height is the panels' `height` plus notes and title."""
    below = [
        line for note in (notes if looks.notes else ()) for line in textwrap.wrap(note, int(width / (LETTER * em())))
    ]
    lines = len(below) + 1.5 * bool(looks.title) + 2  # two lines are for the common axis
    size = looks.size or (width, height + lines * LINE * em())
    figure = Figure(figsize=size, layout="constrained")
    if below:
        figure.supxlabel("\n".join(below), x=0.01, ha="left", size=rcParams["legend.fontsize"])
    return figure


def remove(axes: Sequence[Axes]) -> None:
    """Remove panels without content."""
    for one in axes:
        one.remove()


def look(style: ChartStyle) -> dict[str, Any]:
    """Return color and stroke of a run's curves. A style of matplotlib with fewer colors has them with further strokes."""
    colors = rcParams["axes.prop_cycle"].by_key().get("color", ["C0"])
    again, color = divmod(style.color, len(colors))
    dashes = STROKES[(style.stroke + again) % len(STROKES)]
    return {"color": to_hex(colors[color]), "linestyle": (0, dashes) if dashes else "-"}


def em() -> float:
    """Return the size of letters in legends and notes, in inches."""
    points: float = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    return points / 72


def abreast(names: Sequence[str], width: float) -> int:
    """Return the number of legend entries that fit side by side."""
    longest = max(map(len, names), default=0) * LETTER
    longest += rcParams["legend.handlelength"] + rcParams["legend.columnspacing"] + 1
    return max(1, min(len(names), int(width / (longest * em()))))


def by_rows(entries: Sequence[_Entry], columns: int) -> list[_Entry]:
    """Return legend entries in the order that makes matplotlib, which fills columns, show them row by row."""
    return [entry for column in range(columns) for entry in entries[column::columns]]


def beside(axes: Axes, names: Sequence[Named], height: float) -> None:
    """Write names next to their points: to the right of the panel, or in it where a curve ends before the panel does.

    Parameters
    ----------
    height
        Approximate height of the panel in inches, which keeps the names apart.
    """
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    wide = max((len(one.name) for one in names), default=0) > _BESIDE
    # Behind letters on curves. A stroke around them would make them paths, which no search finds.
    ground = {"facecolor": rcParams["axes.facecolor"], "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
    for inside in (False, True):
        here = [one for one in names if inside == (one.x < left + _INSIDE * (right - left))]
        here.sort(key=lambda one: one.y)
        fractions = _apart([(one.y - low) / (high - low) for one in here], 1.2 * em() / height)
        for one, fraction in zip(here, fractions, strict=True):
            at = (one.x - left) / (right - left) + 0.03 if inside else 1.03
            line = {
                "arrowstyle": "-",
                "color": one.color,
                "linewidth": 0.6 * rcParams["lines.linewidth"],
                "relpos": (0, 0.5),
            }
            axes.annotate(
                _short(one.name) if wide else one.name, (one.x, one.y), (at, fraction), textcoords="axes fraction",
                va="center", size=rcParams["legend.fontsize"], annotation_clip=False, bbox=ground if inside else None, zorder=5,
                arrowprops={**line, "shrinkA": 1, "shrinkB": 0},
            )  # fmt: skip


def _apart(heights: Sequence[float], distance: float) -> list[float]:
    """Return ascending heights between 0 and 1 that are at least a distance apart."""
    placed: list[float] = []
    for one in heights:
        placed.append(max(one, placed[-1] + distance if placed else 0.0))
    limit = 1.0
    for at in reversed(range(len(placed))):
        placed[at] = min(placed[at], limit)
        limit = placed[at] - distance
    return placed


def _short(name: str) -> str:
    """Return the label and the marks of a name, without the run's own name."""
    label, *others = name.split(" ")
    return " ".join([label, *(one for one in others if one in ("*", "◆"))])
