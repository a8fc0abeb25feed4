"""Idle power of a GPU or a host, from its readings."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

__all__ = ["IdlePower"]

# Power counts as sustained once it has lasted this long, in at least two measurements.
_SUSTAINED_SECONDS = 3.0
# Two measurements of the same interval confirm each other if they differ by less.
_TOLERANCE = 1.25


class _Interval(NamedTuple):
    watts: float
    seconds: float
    free: bool


class IdlePower:
    """The lowest sustained power observed so far.

    A single low reading, such as a sensor's error or a counter that restarts, does not count: power is sustained if all
    intervals of `_SUSTAINED_SECONDS`, and at least two, were as low. A counter and a reading of the same long interval
    are two measurements as well. Until power without load was sustained, the first reading counts too, and instead of it
    the first one without load.

    Attributes
    ----------
    seen_free
        Whether the device was ever observed without load.
    """

    def __init__(self, first: float = math.inf, *, free: bool = False) -> None:
        self.seen_free = free
        self._provisional, self._sustained = first, math.inf
        self._intervals: deque[_Interval] = deque()

    @property
    def watts(self) -> float:
        """Idle power, infinite while unknown."""
        return min(self._provisional, self._sustained)

    def add(self, counted: float | None, seconds: float, *, free: bool, read: float | None = None) -> None:
        """Add an interval.

        Parameters
        ----------
        counted
            Mean power by a counter of energy, in watts; ``None`` without a counter.
        free
            Whether the device had no load.
        read
            Power by its sensor at the end of the interval, in watts.
        """
        if counted is None or read is None:
            watts, confirmed = (read if counted is None else counted), False
        else:
            confirmed = counted <= _TOLERANCE * read
            watts = read if confirmed else counted
        if watts is None or watts <= 0:
            return
        if self._provisional == math.inf == self._sustained or (free and not self.seen_free):
            self._provisional = watts
        self.seen_free = self.seen_free or free
        self._intervals.append(_Interval(watts, seconds, free))
        if confirmed and seconds >= _SUSTAINED_SECONDS:
            self._sustain([self._intervals[-1]])
            return
        covered = sum(interval.seconds for interval in self._intervals)
        while len(self._intervals) > 2 and covered - self._intervals[0].seconds >= _SUSTAINED_SECONDS:
            covered -= self._intervals.popleft().seconds
        if covered >= _SUSTAINED_SECONDS and len(self._intervals) > 1:
            self._sustain(list(self._intervals))

    def _sustain(self, intervals: list[_Interval]) -> None:
        self._sustained = min(self._sustained, max(interval.watts for interval in intervals))
        if all(interval.free for interval in intervals):
            self._provisional = math.inf
