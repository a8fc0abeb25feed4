"""Steps of a lane, stacked upon each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hypergauge.insight.ledger.model import Block, Floats, Lane

__all__ = ["Layer", "heights", "stacked"]

# A value holds until the next one, and for so many steps at most: gaps stay empty.
_LONGEST = 2.0


@dataclass(frozen=True, slots=True)
class Layer:
    """Steps of a block, or of idle power where `block` is ``None``.

    Attributes
    ----------
    edges
        Bounds of the steps in Unix seconds, one more than steps.
    low, high
        Lower and upper end of each step.
    """

    block: Block | None
    edges: Floats
    low: Floats
    high: Floats

    def after(self, moment: float) -> Layer:
        """Return the part after a moment."""
        first = max(0, int(np.searchsorted(self.edges, moment, "right")) - 1)
        edges = self.edges[first:].copy()
        edges[0] = max(edges[0], moment)
        return Layer(self.block, edges, self.low[first:], self.high[first:])


def stacked(lane: Lane) -> Iterator[Layer]:
    """Yield the layers of a lane from the bottom to the top; blocks without values are left out."""
    measured = [block for block in lane.blocks if len(block.x)]
    curves: list[tuple[Block | None, Floats, Floats, Floats]] = [
        (block, *_held(block.x, block.value, block.start, block.end)) for block in measured
    ]
    if len(lane.idle_x):
        curves.insert(0, (None, *_held(lane.idle_x, lane.idle, lane.idle_x[0], np.inf)))
    if not curves:
        return
    edges = np.unique(np.concatenate([part for _, begins, ends, _ in curves for part in (begins, ends)]))
    below = np.zeros(len(edges) - 1)
    for block, begins, ends, value in curves:
        at = np.searchsorted(begins, edges[:-1], "right") - 1
        holds = (at >= 0) & (edges[:-1] < ends[at])
        above = below + np.where(holds, value[at], 0.0)
        # Only its own time: beyond it a layer would be an invisible line.
        low, high = _span(edges, begins[0], ends[-1])
        yield Layer(block, edges[low : high + 1], below[low:high], above[low:high])
        below = above


def _held(x: Floats, value: Floats, start: float, end: float) -> tuple[Floats, Floats, Floats]:
    """Return start, end and value of each step."""
    usual = float(np.median(np.diff(x))) if len(x) > 1 else end - start
    begins = x.copy()
    if begins[0] - start < _LONGEST * usual:
        begins[0] = start
    ends = np.minimum(np.append(begins[1:], np.inf), begins + _LONGEST * usual)
    ends[-1] = min(ends[-1], begins[-1] + usual) if end - begins[-1] > _LONGEST * usual else end
    keep = (begins < end) & (ends > begins)
    return begins[keep], np.minimum(ends, end)[keep], value[keep]


def _span(edges: Floats, low: float, high: float) -> tuple[int, int]:
    return int(np.searchsorted(edges, low)), int(np.searchsorted(edges, high))


def heights(layers: Sequence[Layer]) -> float:
    """Return the highest end of all layers; 0 without any."""
    return max((float(layer.high.max()) for layer in layers if len(layer.high)), default=0.0)
