"""Entries of a profile: time by name, from its stacks."""

from __future__ import annotations

from collections.abc import Iterable

from hypergauge.scheduler.profilers.reports.stacks import Stack
from hypergauge.sql.ingest.limits import storable
from hypergauge.sql.runs.profiles import ProfileEntry, ProfileStack

__all__ = ["entries", "heaviest"]

# Names of templates and command lines have no limit.
_LONGEST_NAME = 2000


def entries(stacks: Iterable[Stack]) -> list[ProfileEntry]:
    """Return the entries of stacks, by kind, name and phase.

    A name's total counts a stack once, however often the name is in it: a recursion does not count twice.
    """
    own: dict[tuple[str, str, str], float] = {}
    total: dict[tuple[str, str, str], float] = {}
    calls: dict[tuple[str, str, str], int] = {}
    of_kind: dict[str, float] = {}
    for stack in stacks:
        of_kind[stack.kind] = of_kind.get(stack.kind, 0.0) + stack.seconds
        for frame in set(stack.frames):
            key = (stack.kind, frame, stack.phase)
            total[key] = total.get(key, 0.0) + stack.seconds
        innermost = (stack.kind, stack.frames[-1], stack.phase)
        own[innermost] = own.get(innermost, 0.0) + stack.seconds
        if stack.calls is not None:
            calls[innermost] = calls.get(innermost, 0) + stack.calls
    return [
        ProfileEntry(
            kind, _text(name), phase, calls.get(key), seconds, own.get(key, 0.0),
            own.get(key, 0.0) / of_kind[kind] if of_kind[kind] else 0.0,
        )
        for key, seconds in total.items()
        for kind, name, phase in [key]
    ]  # fmt: skip


def heaviest(stacks: Iterable[Stack], most: int) -> list[ProfileStack]:
    """Return the stacks with the most time of their own, over all phases."""
    found: dict[tuple[str, tuple[str, ...]], tuple[int | None, float]] = {}
    for stack in stacks:
        calls, seconds = found.get((stack.kind, stack.frames), (None, 0.0))
        both = stack.calls if calls is None else calls + (stack.calls or 0)
        found[stack.kind, stack.frames] = both, seconds + stack.seconds
    heavy = sorted(found.items(), key=lambda one: -one[1][1])[:most]
    return [
        ProfileStack(kind, [_text(frame) for frame in frames], calls, seconds)
        for (kind, frames), (calls, seconds) in heavy
    ]


def _text(name: str) -> str:
    return storable(name[:_LONGEST_NAME]) or "unnamed"
