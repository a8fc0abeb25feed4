"""Records of the spool that are not accepted yet."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from hypergauge.collector.spool.segments import Segment

__all__ = ["Entries", "Entry"]

_LIVE_SECONDS = 10.0


class Entry(NamedTuple):
    """Position of a record in its segment; `appended` is by the monotonic clock, ``-inf`` for a recovered record."""

    batch: int
    segment: Segment
    offset: int
    length: int
    samples: int
    appended: float = -math.inf


class Entries:
    """Records by state, in the order of their batches.

    A record is queued (live for some seconds, then in the backlog), taken, and accepted. After a failed write or a
    crash, the database may or may not have its batch: the batch is unsure until `settle`.
    """

    def __init__(self) -> None:
        self._backlog: deque[Entry] = deque()  # older than all live ones
        self._live: deque[Entry] = deque()
        self._taken: dict[int, Entry] = {}
        self._unsure: set[int] = set()
        self._given_up: dict[int, Entry] = {}  # of those that were taken or unsure

    def append(self, entry: Entry) -> None:
        """Add a new record."""
        self._live.append(entry)

    def recover(self, entry: Entry) -> None:
        """Add a record from before a restart, which the database may have."""
        self._backlog.append(entry)
        self._unsure.add(entry.batch)

    def pop(self, *, live: bool) -> Entry | None:
        """Remove and return the oldest queued entry, or the oldest live one; ``None`` if there is none."""
        horizon = time.monotonic() - _LIVE_SECONDS
        while self._live and self._live[0].appended < horizon:
            self._backlog.append(self._live.popleft())
        queue = self._backlog if self._backlog and not live else self._live
        return queue.popleft() if queue else None

    def take(self, entry: Entry) -> None:
        """Mark a popped entry as taken."""
        self._taken[entry.batch] = entry

    def accept(self, batch: int) -> Entry | None:
        """Remove and return a taken entry, ``None`` if it was given up."""
        self._given_up.pop(batch, None)
        return self._taken.pop(batch, None)

    def give_back(self) -> None:
        """Queue the taken entries again; the database may have them."""
        self._unsure |= self._taken.keys() | self._given_up.keys()
        self._backlog = deque(sorted([*self._taken.values(), *self._backlog], key=lambda entry: entry.batch))
        self._taken.clear()

    @property
    def waiting(self) -> bool:
        """Whether there are queued entries."""
        return bool(self._backlog or self._live)

    @property
    def unsure(self) -> int | None:
        """The lowest unsure batch, ``None`` if there is none."""
        return min(self._unsure, default=None)

    def settle(self, written: Collection[int]) -> tuple[int, list[Entry], list[Entry]]:
        """Settle all unsure batches by the database's list of `written` ones.

        Returns
        -------
        tuple[int, list[Entry], list[Entry]]
            The number of unsure batches that are written; their entries; and entries that were given up unwritten.
        """
        lost = [entry for batch, entry in self._given_up.items() if batch in self._unsure and batch not in written]
        self._given_up = {batch: entry for batch, entry in self._given_up.items() if batch not in self._unsure}
        there = self._unsure.intersection(written)
        accepted = [entry for entry in self._backlog if entry.batch in there]
        self._backlog = deque(entry for entry in self._backlog if entry.batch not in there)
        self._unsure.clear()
        return len(there), accepted, lost

    def give_up(self, segment: Segment) -> list[Entry]:
        """Remove the entries of a segment; return those that are certainly not in the database."""
        removed = [one for one in (*self._taken.values(), *self._backlog, *self._live) if one.segment is segment]
        known = self._taken.keys() | self._unsure
        self._given_up |= {entry.batch: entry for entry in removed if entry.batch in known}
        lost = [entry for entry in removed if entry.batch not in known]
        self._taken = {batch: entry for batch, entry in self._taken.items() if entry.segment is not segment}
        self._backlog = deque(entry for entry in self._backlog if entry.segment is not segment)
        self._live = deque(entry for entry in self._live if entry.segment is not segment)
        return lost

    def __len__(self) -> int:
        return len(self._backlog) + len(self._live) + len(self._taken)

    @property
    def lag(self) -> float:
        """Seconds since the oldest entry was appended, 0 without any; infinite for a recovered one."""
        now = time.monotonic()
        first = [queue[0].appended for queue in (self._backlog, self._live) if queue]
        return now - min([now, *first, *(entry.appended for entry in self._taken.values())])
