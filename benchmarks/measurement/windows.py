"""Windows of a training with measuring on or off: their order, and contrasts between them.

A block has four windows in the order A B B A, so that a linear drift cancels out. A coin decides whether A is on or off.
Every third block is a placebo: measuring stays on throughout, and A and B are only names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

__all__ = ["Block", "Window", "contrast", "planned"]

PLACEBO_EVERY = 3


@dataclass(frozen=True, slots=True)
class Block:
    """Four windows by their names (true for on). In a `placebo`, measuring is on in all of them."""

    on: tuple[bool, bool, bool, bool]
    placebo: bool

    @property
    def measured(self) -> tuple[bool, ...]:
        """Return whether measuring is on in each window."""
        return (True,) * len(self.on) if self.placebo else self.on


@dataclass(frozen=True, slots=True)
class Window:
    """Values of a window.

    Attributes
    ----------
    rate
        Steps per second, over all trainers.
    cpu_seconds
        CPU time of all of the training's processes.
    steal
        Share of the CPU time that the hypervisor gave to other machines.
    frequency
        Mean of the cores' clock rates in MHz; 0 where the host does not show it.
    """

    rate: float
    cpu_seconds: float
    steal: float = 0.0
    frequency: float = 0.0


def planned(random: Random) -> Iterator[Block]:
    """Yield blocks without end: of each three, one at a random position is a placebo."""
    while True:
        placebo = random.randrange(PLACEBO_EVERY)
        for position in range(PLACEBO_EVERY):
            first = random.random() < 0.5
            yield Block((first, not first, not first, first), position == placebo)


def contrast(block: Block, values: Sequence[float]) -> float:
    """Return the mean of the values that are named on, less the mean of the others."""
    on = list(itertools.compress(values, block.on))
    off = list(itertools.compress(values, (not one for one in block.on)))
    return sum(on) / len(on) - sum(off) / len(off)
