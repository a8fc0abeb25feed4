"""Series definitions of all targets by small refs, renumbered before the refs become too many."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from hypergauge.collector.spool.records import SeriesDefinition
from hypergauge.sql.ingest.catalog import Kind

__all__ = ["Definitions", "Numbering"]

# Refs of deleted series, beyond four times the existing ones. Arrays by ref (20 bytes each in the writer, four in each
# segment that is read) stay small, however many series come and go.
_MOST_DELETED = 250_000


class Numbering:
    """Series by refs; a ref never means two series. Thread-safe.

    Attributes
    ----------
    number
        Distinguishes numberings, in which the same refs mean different series.
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
        """Delete series; their refs are not reused."""
        for ref in refs:
            self.by_ref.pop(ref, None)

    @property
    def is_worn(self) -> bool:
        """Return whether most refs belong to deleted series."""
        return self._next > _MOST_DELETED + 4 * len(self.by_ref)


class Definitions:
    """Series definitions of all targets. Thread-safe.

    Parameters
    ----------
    kinds
        Kinds of the catalog's metrics, which override those that sources declare.
    """

    def __init__(self, kinds: Mapping[str, Kind] | None = None) -> None:
        self.kinds = kinds or {}
        self._now = Numbering(0)
        self._lock = threading.Lock()

    @property
    def by_ref(self) -> dict[int, SeriesDefinition]:
        """Series that exist now."""
        return self._now.by_ref

    def numbering(self) -> Numbering:
        """Return the numbering for new series; a worn one is replaced."""
        with self._lock:
            if self._now.is_worn:
                self._now = Numbering(self._now.number + 1)
            return self._now
