"""Flame graphs: the stacks of a profile as nested boxes, each as wide as its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hypergauge.sql.runs.profiles import Profile, ProfileStack, profile_stacks, profiles
from hypergauge.sql.server.database import Connection

__all__ = ["Box", "FlameGraph", "flame_graphs", "flames"]

# Share of all time below which a box is too narrow to see.
_NARROWEST = 0.002
_DEEPEST = 30
# Frames of an import's machinery, five for each module that imports another. Python's own tracebacks leave them out too.
_IMPORT = "<frozen importlib."


@dataclass(frozen=True, slots=True)
class Box:
    """Function within its callers.

    Attributes
    ----------
    depth
        Number of its callers.
    left, width
        Shares of the time of all stacks.
    """

    name: str
    depth: int
    left: float
    width: float
    seconds: float


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """Boxes of one kind of entries of a profile, callers before those that they call.

    Attributes
    ----------
    seconds
        Time of all stacks.
    """

    run_id: str
    profile: Profile
    kind: str
    seconds: float
    boxes: list[Box]

    @property
    def depth(self) -> int:
        """Return the number of lines."""
        return 1 + max(one.depth for one in self.boxes)


def flame_graphs(connection: Connection, run_ids: Sequence[str]) -> Iterator[FlameGraph]:
    """Yield the flame graphs of runs, of the newest profile by each profiler. Kernels have no callers and no graph.

    Samples always have one: those of code without frame pointers name a function without its callers.
    """
    newest = {(one.run_id, one.profiler): one for one in profiles(connection, run_ids)}
    for profile in newest.values():
        by_kind: dict[str, list[ProfileStack]] = {}
        for stack in profile_stacks(connection, profile):
            by_kind.setdefault(stack.kind, []).append(stack)
        for kind, stacks in by_kind.items():
            nested = profile.rate is not None or any(len(stack.frames) > 1 for stack in stacks)
            if nested and (seconds := sum(stack.self for stack in stacks)):
                yield FlameGraph(profile.run_id, profile, kind, seconds, list(flames(stacks)))


@dataclass(slots=True)
class _Node:
    seconds: float = 0.0
    children: dict[str, _Node] = field(default_factory=dict)


def flames(stacks: Iterable[ProfileStack]) -> Iterator[Box]:
    """Yield the boxes of stacks to a certain depth, the widest first within their caller."""
    root = _Node()
    for stack in stacks:
        node = root
        node.seconds += stack.self
        for frame in [frame for frame in stack.frames if _IMPORT not in frame][:_DEEPEST]:
            node = node.children.setdefault(frame, _Node())
            node.seconds += stack.self
    # Not by recursion: a stack may be deeper than Python's.
    left = [(root, 0, 0.0)]
    while left:
        node, depth, start = left.pop()
        for name, child in sorted(node.children.items(), key=lambda one: (-one[1].seconds, one[0])):
            width = child.seconds / root.seconds
            if width < _NARROWEST:
                break
            yield Box(name, depth, start, width, child.seconds)
            left.append((child, depth + 1, start))
            start += width
