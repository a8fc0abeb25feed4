"""Exponential backoff."""

from __future__ import annotations

__all__ = ["Backoff"]


class Backoff:
    """Doubles the wait with each failure in a row, from `first` to `most` seconds.

    With 0.2 and 10 that is 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, …: after a restart of a few seconds nothing is late by more
    than that restart took, and a server that is away for an hour is asked six times a minute.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first, self._most = first, most
        self._next = first

    def failed(self) -> float:
        """Return the seconds to wait now."""
        wait, self._next = self._next, min(2 * self._next, self._most)
        return wait

    def worked(self) -> None:
        """Begin anew at the next failure."""
        self._next = self._first
