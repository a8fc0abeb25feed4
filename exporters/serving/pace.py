"""Pace of an exporter's scrapes, for the tools that it reads."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

__all__ = ["Pace"]

# A tool prints at least this often, so that its last line is recent, and no more often than the fastest collector asks.
_SLOWEST_SECONDS, _FASTEST_SECONDS = 1.0, 0.1
# A median of these ignores single gaps, such as that of a tool's restart.
_GAPS = 5


class Pace:
    """Seconds between two lines that a tool should print, from the gaps between scrapes.

    Parameters
    ----------
    clock
        Clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gaps = deque([_SLOWEST_SECONDS] * _GAPS, _GAPS)
        self._scraped_at: float | None = None
        self._seconds = _SLOWEST_SECONDS

    def scraped(self) -> float:
        """Count a scrape; return the seconds, a tenth to one. They change with scrapes twice or half as frequent."""
        now = self._clock()
        if self._scraped_at is not None:
            self._gaps.append(now - self._scraped_at)
        self._scraped_at = now
        wanted = min(max(round(statistics.median(self._gaps), 1), _FASTEST_SECONDS), _SLOWEST_SECONDS)
        if not self._seconds / 2 < wanted < self._seconds * 2:
            self._seconds = wanted
        return self._seconds
