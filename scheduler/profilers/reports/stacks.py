"""Stacks: paths of functions from the outermost to the innermost, each with the time that is its own.

Every report is reduced to them. A kernel is a stack of one frame.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hypergauge.core.calls import Call
from hypergauge.sql.ingest.limits import is_time

__all__ = ["CallTree", "Phases", "Recording", "Stack", "UnreadableReport", "recorded", "timed"]

# A GPU runs the kernels and copies of a stream one after another, and none calls another. Where their times overlap, the next
# one began before the end of the last one.
_CALL_NONE = frozenset({"kernel", "memory"})
# Numbers that differ in each call of a range: PyTorch's NVTX ranges are `aten::mm, seq = 12, op_id = 34`.
_IDS = re.compile(r",? *\b(?:stashed )?(?:seq|(?:\w+_)?ids?) ?= ?(?:\d+|\[[^]]*\])|(?<=^ProfilerStep)#\d+$")


class UnreadableReport(Exception):
    """Report that is truncated, empty or of another format."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Path of one kind of entries.

    Attributes
    ----------
    kind
        ``kernel``, ``memory`` (copies and fills on a GPU), ``operator``, ``cuda`` (calls of its libraries), ``range`` (named
        in the script), ``system`` (calls of the operating system), ``function`` (of Python) or ``native`` (of compiled code and
        of the kernel).
    frames
        Names from the outermost to the innermost.
    phase
        Phase of the run; empty where it is unknown.
    calls
        Number of calls of the innermost; ``None`` where samples were taken.
    seconds
        Time in the innermost itself, without those that it calls.
    """

    kind: str
    frames: tuple[str, ...]
    phase: str
    calls: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Recording:
    """Content of a report.

    Attributes
    ----------
    started_at, ended_at
        First and last recorded time in Unix seconds; ``None`` where the report has none.
    rate
        Samples per second; ``None`` where every call is recorded.
    skipped
        Records of the report that are left out, because they have no valid time.
    """

    stacks: Sequence[Stack]
    started_at: float | None = None
    ended_at: float | None = None
    rate: float | None = None
    skipped: int = 0


class Phases:
    """Phases of a run.

    Parameters
    ----------
    spans
        Start and end in Unix seconds, and name; phases may nest.
    """

    def __init__(self, spans: Iterable[tuple[float, float, str]] = ()) -> None:
        self._spans = sorted(spans)
        self._starts = [start for start, _, _ in self._spans]

    def at(self, time: float) -> str:
        """Return the innermost phase at a time, empty without one."""
        begun = bisect.bisect_right(self._starts, time)
        return next((name for _, end, name in reversed(self._spans[:begun]) if time < end), "") if begun else ""


@dataclass(slots=True)
class CallTree:
    """Calls of one kind by path and phase.

    Attributes
    ----------
    offset
        Unix time at 0 of the calls' clock; ``None`` if unknown.
    """

    kind: str
    phases: Phases = field(default_factory=Phases)
    offset: float | None = None
    _children: dict[tuple[int, str], int] = field(default_factory=dict)
    _totals: dict[tuple[int, str], list[float]] = field(default_factory=dict)

    def add_track(self, calls: Iterable[Call]) -> None:
        """Add the calls of one thread: a call contains those that start within it, unless its kind calls none."""
        nested: list[tuple[float, int, list[float]]] = []
        for call in sorted(calls, key=lambda one: (one.start, -one.seconds)):
            while nested and (nested[-1][0] <= call.start or self.kind in _CALL_NONE):
                nested.pop()
            parent = nested[-1][1] if nested else -1
            node = self._children.setdefault((parent, call.name), len(self._children))
            total = self._totals.setdefault((node, self._phase(call.start)), [0, 0.0])
            total[0] += 1
            total[1] += call.seconds
            if nested:  # of two that overlap, the later one may end after the earlier one
                nested[-1][2][1] -= min(call.seconds, nested[-1][0] - call.start)
            nested.append((call.end, node, total))

    def stacks(self) -> Iterator[Stack]:
        """Yield all paths."""
        frames: list[tuple[str, ...]] = []
        for parent, name in self._children:
            frames.append((*frames[parent], name) if parent >= 0 else (name,))
        for (node, phase), (calls, seconds) in self._totals.items():
            yield Stack(self.kind, frames[node], phase, int(calls), max(0.0, seconds))

    def _phase(self, time: float) -> str:
        return "" if self.offset is None else self.phases.at(self.offset + time)


def timed(calls: Iterable[Call | None], offset: float | None) -> Iterator[Call | None]:
    """Yield the calls with valid times, and ``None`` in place of others.

    Parameters
    ----------
    offset
        See `recorded`.
    """
    for call in calls:
        yield call if call is not None and _is_valid(call, offset or 0.0) else None


def _is_valid(call: Call, offset: float) -> bool:
    return call.seconds >= 0 and is_time(call.start + offset) and is_time(call.end + offset)


def recorded(calls: Iterable[Call | None], phases: Phases, offset: float | None) -> Recording:
    """Return the stacks of recorded calls; ``None`` stands for one that is damaged.

    Parameters
    ----------
    offset
        Unix time at 0 of the calls' clock; ``None`` if unknown.
    """
    tracks: dict[tuple[str, str], list[Call]] = {}
    skipped = 0
    for call in timed(calls, offset):
        if call is None:
            skipped += 1
            continue
        if call.kind == "range":
            call = replace(call, name=_IDS.sub("", call.name) or call.name)
        tracks.setdefault((call.kind, call.track), []).append(call)
    trees: dict[str, CallTree] = {}
    for (kind, _), of_track in tracks.items():
        trees.setdefault(kind, CallTree(kind, phases, offset)).add_track(of_track)
    stacks = [stack for tree in trees.values() for stack in tree.stacks()]
    if offset is None or not tracks:
        return Recording(stacks, skipped=skipped)
    first = min(min(one.start for one in some) for some in tracks.values())
    last = max(max(one.end for one in some) for some in tracks.values())
    return Recording(stacks, offset + first, offset + last, skipped=skipped)
