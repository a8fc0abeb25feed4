"""Ledger of GPUs as data: lanes of GPUs and MIG instances, and the runs on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hypergauge.sql.queries.charts.ledger import Cost, Mark, PlacedRun
from hypergauge.sql.queries.notices import Notice

__all__ = ["Block", "Floats", "Lane", "Ledger"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Block:
    """Run on a lane. Times are Unix seconds.

    Attributes
    ----------
    end
        Now for a running run.
    quantity
        Source of the values; empty if nothing measured them.
    own
        Whether all values are the run's own; otherwise some are an even part of those of a shared device.
    x, value
        Start of each step and its mean, a share of 1 or watts.
    cost
        Cost of the runs beside it; ``None`` if unknown.
    """

    placed: PlacedRun
    start: float
    end: float
    quantity: str
    own: bool
    x: Floats
    value: Floats
    cost: Cost | None
    marks: tuple[Mark, ...]

    @property
    def lost(self) -> float:
        """Seconds that the runs beside it cost; 0 if unknown."""
        return self.cost.lost * (self.end - self.start) if self.cost else 0.0


@dataclass(frozen=True, slots=True)
class Lane:
    """GPU or MIG instance with its blocks in order of start.

    Attributes
    ----------
    idle_x, idle
        Idle power of a whole GPU in watts; empty for an instance, and for the measure ``sm``.
    """

    place_id: int
    host: str
    name: str
    simulated: bool
    blocks: tuple[Block, ...]
    idle_x: Floats
    idle: Floats


@dataclass(frozen=True, slots=True)
class Ledger:
    """Lanes of GPUs over real time, in Unix seconds.

    Attributes
    ----------
    measure
        Height of the blocks: ``sm`` or ``power``; see `hypergauge.insight.ledger.ledger.MEASURES`.
    sentence
        Summary: what sharing saved and cost, or how busy the lanes were.
    """

    measure: str
    start: float
    end: float
    lanes: tuple[Lane, ...]
    sentence: str
    notices: tuple[Notice, ...]

    @property
    def blocks(self) -> Iterator[Block]:
        """All blocks, lane by lane."""
        return (block for lane in self.lanes for block in lane.blocks)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "measure": self.measure,
            "sentence": self.sentence,
            "lanes": [
                {
                    "host": lane.host,
                    "lane": lane.name,
                    "simulated": lane.simulated,
                    "blocks": [_block(block) for block in lane.blocks],
                }
                for lane in self.lanes
            ],
            "notices": [asdict(one) for one in self.notices],
        }


def _block(block: Block) -> dict[str, Any]:
    return {
        "run": block.placed.run,
        "title": block.placed.title,
        "status": block.placed.status,
        "started": block.start,
        "ended": block.end,
        "shared": block.placed.shared,
        "quantity": block.quantity or None,
        "own": block.own,
        "mean": float(block.value.mean()) if len(block.value) else None,
        "lost_seconds": block.lost,
        "slowdown": block.cost.ratio if block.cost else None,
        "disturbed": block.cost.disturbed if block.cost else None,
    }
