"""Members of a training: its processes by name. The steps of those called ``trainer-…`` are the training's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

__all__ = ["TRAINER", "Members"]

TRAINER = "trainer-"

# Each function runs in a process of its own, and yields at the end of each step.
Members = dict[str, Callable[[], Iterator[None]]]
