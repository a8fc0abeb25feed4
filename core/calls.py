"""Recorded call of an operator, a function or a kernel."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """Recorded call.

    Attributes
    ----------
    kind
        See `hypergauge.scheduler.profilers.reports.stacks.Stack`.
    track
        Thread of a process, or stream of a GPU.
    start
        In seconds by any clock.
    seconds
        Duration. It is no difference of times, which are large and therefore rounded to nanoseconds.
    """

    kind: str
    name: str
    track: str
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """Return the time of its end."""
        return self.start + self.seconds
