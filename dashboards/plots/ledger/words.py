"""Texts of a ledger's picture and page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from markupsafe import escape

from hypergauge.core.listing import listed
from hypergauge.dashboards.terminal.formatting import duration
from hypergauge.insight.ledger.model import Block, Lane, Ledger

__all__ = ["HEIGHT", "VALUE", "cost_text", "full_height", "lane_names", "mean_text", "tooltip"]

# Meaning of a block's height.
HEIGHT = {
    "sm": "Height: the run's own share of the multiprocessors of its GPU or MIG instance.",
    "power": "Height: the run's own power above idle, on top of the idle power of its GPU, which instances have in common.",
}
# Title of the column of means.
VALUE = {"sm": "own SM share", "power": "own power above idle"}


def full_height(measure: str, highest: float) -> float:
    """Return the value of a row's full height: 100% or more, or hundreds of watts."""
    if measure == "sm":
        return max(1.0, math.ceil(10 * highest - 1e-6) / 10)
    return max(100.0, 100.0 * math.ceil(highest / 100))


def mean_text(found: Ledger, block: Block) -> str:
    """Return the mean of a block's values with its meaning; empty without values."""
    if not len(block.value):
        return ""
    mean = float(block.value.mean())
    text = f"{mean:.0%}" if found.measure == "sm" else f"{mean:.0f} W"
    return text if block.own else f"{text} (an even part of the whole)"


def cost_text(block: Block) -> str:
    """Return what the runs beside it cost a block; empty if unknown."""
    if block.cost is None:
        return ""
    if block.cost.disturbed:
        return f"undecided against alone ({listed(block.cost.alone, 2)}): other programs may explain it"
    change = block.cost.ratio - 1
    word = "longer" if change > 0 else "shorter"
    lost = f", {duration(block.lost)} lost" if block.lost else ""
    doubt = f"; {block.cost.doubt}" if block.cost.doubt else ""
    return f"{abs(change):.0%} {word} than alone ({listed(block.cost.alone, 2)}){lost}{doubt}"


def tooltip(found: Ledger, block: Block) -> str:
    """Return the facts about a block in lines, safe for markup."""
    placed = block.placed
    mean = mean_text(found, block)
    what = "of the multiprocessors" if found.measure == "sm" else "above idle"
    if block.quantity == "gpu_power":
        what = "of the whole GPU, idle included"
    lines = [
        placed.title,
        f"{placed.status} after {duration(block.end - block.start)} on {placed.host}, {placed.lane}",
        f"mean {mean} {what}" if mean else "not measured",
        cost_text(block),
    ]
    return str(escape("\n".join(filter(None, lines))))


def lane_names(lanes: Sequence[Lane]) -> Iterator[str]:
    """Yield the names of lanes; the first of each host has the host's above it, where there are several."""
    several = len({lane.host for lane in lanes}) > 1
    last = ""
    for lane in lanes:
        yield f"{lane.host}\n{lane.name}" if several and lane.host != last else lane.name
        last = lane.host
