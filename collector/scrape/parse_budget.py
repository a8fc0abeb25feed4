"""Parse budget: parsing yields to requests that are due."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["ParseBudget"]

# Bytes parsed between two iterations of the event loop: some 10 ms with the conversion. Large enough that not each
# response costs a poll of the kernel, and small against an interval.
_BYTES = 1 << 18


class ParseBudget:
    """Limit on the bytes that coroutines parse per iteration of their event loop.

    Without it, an event loop runs all ready callbacks before it polls again, ever more of them on a busy host.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def mine(self, work: int) -> None:
        """Wait for the budget to parse `work` bytes; it lasts until the coroutine awaits something else."""
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
