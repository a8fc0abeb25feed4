"""Parse budget: parsing yields to requests that are due."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["ParseBudget"]

# What is read between two looks, some 10 ms with all that is made of it: not so little that each body has the loop ask the kernel,
# and little for an interval.
_BYTES = 1 << 18


class ParseBudget:
    """Has coroutines read so many bytes together, and their loop look at what has arrived in between.

    An event loop by itself does all that is ready before it looks again: where the cores are short, that is ever more.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def mine(self, work: int) -> None:
        """Wait for a turn to do as much work as `work` bytes are; it lasts until the coroutine awaits something else."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._next)
        self._waiting.append((turn := loop.create_future(), work))
        await turn

    def _next(self) -> None:
        together = 0
        while self._waiting and together < _BYTES:
            turn, work = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                together += work
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
