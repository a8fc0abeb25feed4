"""Series definitions of all targets, by small numbers that are compacted before they become too many."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from hypergauge.collector.spool.segments import SeriesDefinition

__all__ = ["Definitions", "Numbering"]

# Refs of series that are gone, beyond four times those that there are: what is kept by ref (an array of 20 bytes each in
# the writer, four in each segment that is read) stays as small, however many series come and go.
_MOST_GONE = 250_000


class Numbering:
    """Series by refs, none of which means two series. For any thread.

    Attributes
    ----------
    number
        Tells it from others, in which the same refs mean other series.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.by_ref: dict[int, SeriesDefinition] = {}
        self._next = 0
        self._lock = threading.Lock()

    def add(self, definition: SeriesDefinition) -> int:
        """Return a new ref for a series."""
        with self._lock:
            ref = self._next
            self._next += 1
        self.by_ref[ref] = definition
        return ref

    def forget(self, refs: Iterable[int]) -> None:
        """Let go of series; their refs are not given again."""
        for ref in refs:
            self.by_ref.pop(ref, None)

    @property
    def is_worn(self) -> bool:
        """Return whether most of its refs are of series that are gone."""
        return self._next > _MOST_GONE + 4 * len(self.by_ref)


class Definitions:
    """All series of all targets. For any thread."""

    def __init__(self) -> None:
        self._now = Numbering(0)
        self._lock = threading.Lock()

    @property
    def by_ref(self) -> dict[int, SeriesDefinition]:
        """The series that there are by now."""
        return self._now.by_ref

    def numbering(self) -> Numbering:
        """Return the numbering to be used from now on: another one than before where that one is worn."""
        with self._lock:
            if self._now.is_worn:
                self._now = Numbering(self._now.number + 1)
            return self._now
