"""Exponential backoff."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["Backoff", "pauses"]


class Backoff:
    """Pause that doubles with each consecutive failure, from `first` to `most` seconds.

    With 0.2 and 10 that is 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, …: after a restart of a few seconds, work is late by
    at most the duration of the restart. A server that is down for an hour gets six requests a minute.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first, self._most = first, most
        self._next = first

    def failed(self) -> float:
        """Return the seconds to wait now."""
        wait, self._next = self._next, min(2 * self._next, self._most)
        return wait

    def worked(self) -> None:
        """Reset the pause for the next failure."""
        self._next = self._first


def pauses(first: float, most: float, within: float) -> Iterator[float]:
    """Yield pauses that double from `first` to `most` seconds, until their sum exceeds `within`.

    With 0.5, 30 and 3 that is 0.5, 1, 2: four tries within 3.5 seconds.
    """
    backoff, waited = Backoff(first, most), 0.0
    while waited <= within:
        pause = backoff.failed()
        yield pause
        waited += pause
