"""Parse budget: parsing yields to requests that are due."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["ParseBudget"]

# Bytes parsed per iteration of the event loop: some 10 ms with the conversion, short against an interval. Less would cost
# a poll of the kernel for each response.
_BYTES = 1 << 18


class ParseBudget:
    """Limit on the bytes that coroutines parse per iteration of their event loop.

    Without it, the event loop runs all ready callbacks before it polls again: ever more of them on a busy host.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def acquire(self, work: int) -> None:
        """Wait for the budget to parse `work` bytes; it lasts until the coroutine awaits something else."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._next)
        self._waiting.append((future := loop.create_future(), work))
        await future

    def _next(self) -> None:
        parsed = 0
        while self._waiting and parsed < _BYTES:
            future, work = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                parsed += work
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
