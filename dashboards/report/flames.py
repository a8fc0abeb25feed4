"""Flame graphs of a report."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypergauge.dashboards.palette import LIGHTER
from hypergauge.dashboards.terminal.profiles import seconds_text
from hypergauge.insight.flames import Box, FlameGraph

__all__ = ["Flame", "FlamePicture", "flame_pictures"]


@dataclass(frozen=True, slots=True)
class Flame:
    """Box of a picture; `hint` has its whole name and its time, `left` and `width` are in percent."""

    text: str
    hint: str
    row: int
    left: float
    width: float
    color: str


@dataclass(frozen=True, slots=True)
class FlamePicture:
    """Flame graph with its title; callers are above those that they call."""

    title: str
    rows: int
    flames: list[Flame]


def flame_pictures(found: Sequence[FlameGraph], titles: Mapping[str, str]) -> list[FlamePicture]:
    """Return the pictures of flame graphs; `titles` are those of the runs by id."""
    return [
        FlamePicture(
            f"{titles[one.run_id]}: {one.kind}s, {seconds_text(one.seconds)} by {one.profile.profiler}",
            one.depth,
            [_flame(box) for box in one.boxes],
        )
        for one in found
    ]


def _flame(box: Box) -> Flame:
    # Functions of one file have one color.
    name, _, file = box.name.partition(" (")
    color = LIGHTER[zlib.crc32((file.partition(":")[0] or name).encode()) % len(LIGHTER)]
    hint = f"{box.name}: {seconds_text(box.seconds)}, {box.width:.1%}"
    return Flame(name, hint, box.depth, round(100 * box.left, 3), round(100 * box.width, 3), color)
