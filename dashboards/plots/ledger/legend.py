"""Keys and colors of a ledger's picture."""

from __future__ import annotations

from collections.abc import Collection

from matplotlib import rcParams
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hypergauge.dashboards.palette import COLORS
from hypergauge.dashboards.plots.canvas import em
from hypergauge.insight.ledger.model import Ledger

__all__ = ["FAILED", "GAP", "IDLE", "RULE", "contrast", "legend_keys", "run_keys", "small"]

IDLE, FAILED, RULE = "#9aa0a6", "#d1382c", "#c98a00"
# Share of the whole time from which missing values are shown.
GAP = 0.01
# More runs without a name in their blocks cannot be listed.
_MOST_LISTED = 6


def small() -> float:
    """Return the size of letters in legends and notes, in points."""
    return em() * 72


def legend_keys(found: Ledger) -> list[Patch | Line2D]:
    """Return the keys of what the ledger shows."""
    blocks = list(found.blocks)
    kinds = {mark.kind for block in blocks for mark in block.marks}
    ink = rcParams["text.color"]

    def point(marker: str, color: str, label: str) -> Line2D:
        return Line2D([], [], color=color, marker=marker, linestyle="", markersize=0.7 * small(), label=label)

    keys: list[Patch | Line2D] = []
    if any(block.lost > 0 for block in blocks):
        keys.append(
            Patch(
                facecolor="#7f7f9f",
                edgecolor="#ffffff",
                hatch="/////",
                linewidth=0,
                label="time lost to runs beside it",
            )
        )
    if any(len(lane.idle_x) for lane in found.lanes):
        keys.append(Patch(facecolor=IDLE, alpha=0.55, label="idle power"))
    keys.append(Line2D([], [], color=IDLE, alpha=0.55, linewidth=3, label="no run"))
    if any(not block.own for block in blocks):
        keys.append(Patch(facecolor="#7f7f9f", alpha=0.4, linestyle="--", label="not its own value"))
    if any(not len(block.x) or block.x[-1] < block.end - 2 * GAP * (found.end - found.start) for block in blocks):
        keys.append(Patch(facecolor="#7f7f9f", alpha=0.2, label="no values"))
    if "phase" in kinds:
        keys.append(point("|", ink, "phase begins"))
    if "rule" in kinds:
        keys.append(point("v", RULE, "rule fired"))
    if any(block.placed.early for block in blocks):
        keys.append(point("X", FAILED, "ended early"))
    return keys


def run_keys(found: Ledger, named: Collection[str]) -> list[Patch | Line2D]:
    """Return the keys of the runs without a name in the picture, if they are few."""
    runs = {one.placed.run_id: one.placed for one in found.blocks if one.placed.run_id not in named}
    if len(runs) > _MOST_LISTED:
        return []
    return [Patch(facecolor=COLORS[one.color % len(COLORS)], label=one.title) for one in runs.values()]


def contrast(color: str) -> str:
    """Return the color of letters on a color."""
    red, green, blue = to_rgb(color)
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.52 else "#ffffff"
