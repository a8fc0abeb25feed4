"""Folded stacks of py-spy: ``outer (file.py:1);inner (file.py:2) 12``, with a number of samples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hypergauge.scheduler.profilers.reports.stacks import Recording, Stack, UnreadableReport

__all__ = ["read_folded"]

# Processes stand in front, with their command lines, which may contain any character.
_PROCESSES = re.compile(r'process \d+:".*"(?:;|$)')


def read_folded(path: Path, rate: float) -> Recording:
    """Return the stacks of a report that was sampled `rate` times a second.

    Raises
    ------
    UnreadableReport
        A line is no stack with a number.
    """
    return Recording(list(_stacks(path, rate)), rate=rate)


def _stacks(path: Path, rate: float) -> Iterator[Stack]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            text, _, count = line.rstrip("\n").rpartition(" ")
            if not count.isdecimal():
                raise UnreadableReport(f"its line {number} is no stack with a number of samples")
            if frames := tuple(filter(None, _PROCESSES.sub("", text).split(";"))):
                yield Stack("function", frames, "", None, int(count) / rate)
