"""Styles of figures: our own, and those of matplotlib."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cycler import cycler
from matplotlib import style as styles

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.dashboards.palette import COLORS

__all__ = ["STYLES", "Style", "applied"]


@dataclass(frozen=True, slots=True)
class Style:
    """Settings of matplotlib, and the size of a figure.

    Attributes
    ----------
    column, page
        Widths in inches: for up to two panels in one column, and for more in two.
    row
        Height of a panel in inches.
    """

    column: float = 3.5
    page: float = 7.16
    row: float = 1.75
    rc: dict[str, Any] = field(default_factory=dict)


_BASE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "figure.titlesize": 9, "legend.fontsize": 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5,
    "ytick.major.size": 2.5, "lines.linewidth": 1.1, "patch.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "axes.grid": True, "axes.xmargin": 0.01, "grid.color": "#b0b0b0", "grid.alpha": 0.35, "grid.linewidth": 0.4,
    "legend.frameon": False, "legend.handlelength": 1.6, "legend.columnspacing": 1.2, "legend.handletextpad": 0.5,
    "legend.borderaxespad": 0.5, "legend.borderpad": 0.1,
    "figure.dpi": 100, "savefig.dpi": 300, "savefig.bbox": None,
    # Text stays searchable and editable: letters in SVG, a TrueType font in PDF.
    "svg.fonttype": "none", "pdf.fonttype": 42,
    "axes.prop_cycle": cycler(color=COLORS),
}  # fmt: skip
# The same figure has the same bytes.
_ALWAYS: dict[str, Any] = {"svg.hashsalt": "hypergauge"}
_LARGE: dict[str, Any] = {
    "font.size": 15, "axes.labelsize": 15, "axes.titlesize": 15, "figure.titlesize": 18, "legend.fontsize": 14,
    "xtick.labelsize": 13, "ytick.labelsize": 13, "axes.linewidth": 1.0, "xtick.major.width": 1.0,
    "ytick.major.width": 1.0, "xtick.major.size": 5, "ytick.major.size": 5, "lines.linewidth": 2.4,
    "grid.linewidth": 0.8, "savefig.dpi": 150,
}  # fmt: skip
_DARK: dict[str, Any] = {
    "figure.facecolor": "#15181c", "axes.facecolor": "#15181c", "savefig.facecolor": "#15181c",
    "text.color": "#e8e8e8", "axes.labelcolor": "#e8e8e8", "axes.edgecolor": "#a0a6ad", "xtick.color": "#c8ccd1",
    "ytick.color": "#c8ccd1", "grid.color": "#7a8087",
}  # fmt: skip

STYLES = {
    "paper": Style(),
    "slides": Style(column=10, page=13.3, row=3.4, rc=_LARGE),
    "dark": Style(column=10, page=13.3, row=3.4, rc={**_LARGE, **_DARK}),
}


@contextlib.contextmanager
def applied(name: str) -> Iterator[Style]:
    """Apply a style of `STYLES` or of matplotlib by its name, or a matplotlib style file by its path.

    Raises
    ------
    BadRequest
        No style has that name, or the file cannot be read.
    """
    chosen = STYLES.get(name)
    if chosen is None and name not in styles.available and not Path(name).is_file():
        raise BadRequest(f"there is no style {name!r}{did_you_mean(name, [*STYLES, *styles.available])}")
    try:
        with styles.context([_BASE, chosen.rc if chosen else name, _ALWAYS], after_reset=True):
            yield chosen or STYLES["paper"]
    except OSError as error:
        raise BadRequest(f"the style {name} cannot be read: {error}") from None
