"""Folded stacks of py-spy: ``outer (file.py:1);inner (file.py:2) 12``, with a number of samples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hypergauge.scheduler.profilers.reports.stacks import Recording, Stack, UnreadableReport

__all__ = ["read_folded"]

# Processes stand in front, with their command lines, which may contain quotes and line ends too.
_PROCESS = re.compile(r'process \d+:"(?:[^"]|"(?!;| \d+\n))*"(?:;|(?= \d+\n))')


def read_folded(path: Path, rate: float) -> Recording:
    """Return the stacks of a report that was sampled `rate` times a second.

    Raises
    ------
    UnreadableReport
        A line is no stack with a number, or there is none.
    """
    stacks = list(_stacks(path.read_text(encoding="utf-8", errors="replace"), rate))
    if not stacks:
        raise UnreadableReport("no Python function was busy")
    return Recording(stacks, rate=rate)


def _stacks(text: str, rate: float) -> Iterator[Stack]:
    for number, line in enumerate(_PROCESS.sub("", text).splitlines(), 1):
        frames, _, count = line.rpartition(" ")
        if not count.isdecimal():
            raise UnreadableReport(f"its line {number} is no stack with a number of samples")
        # Each function has its file in parentheses; the rest of a command line has not.
        if functions := tuple(frame for frame in frames.split(";") if frame.endswith(")")):
            yield Stack("function", functions, "", None, int(count) / rate)
