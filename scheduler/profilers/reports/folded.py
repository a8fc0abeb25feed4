"""Folded stacks of py-spy: ``outer (file.py:1);inner (file.py:2) 12``, with a number of samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hypergauge.scheduler.profilers.reports.stacks import Recording, Stack, UnreadableReport

__all__ = ["read_folded"]

# Processes stand in front, with their command lines, which may contain quotes and line ends too.
_PROCESS = re.compile(r'process \d+:"(?:[^"]|"(?!;| \d+\n))*"(?:;|(?= \d+\n))')

# A file's name may contain a line end, which divides its stack. A day has fewer samples than ten digits can count.
_COUNT = re.compile(r"(.*) ([0-9]{1,10})\r?")


def read_folded(path: Path, rate: float) -> Recording:
    """Return the stacks of a report that was sampled `rate` times a second.

    Raises
    ------
    UnreadableReport
        The last line is cut, or no line is a stack with a number.
    """
    lines = _PROCESS.sub("", path.read_bytes().decode(errors="replace")).split("\n")
    counts = [_COUNT.fullmatch(line) for line in lines]
    if lines[-1] and counts[-1] is None:
        raise UnreadableReport(f"its line {len(lines)} is no stack with a number of samples")
    stacks = list(_stacks(filter(None, counts), rate))
    if not stacks:
        raise UnreadableReport("no Python function was busy")
    return Recording(stacks, rate=rate, skipped=sum(bool(line) for line in lines) - sum(map(bool, counts)))


def _stacks(lines: Iterable[re.Match[str]], rate: float) -> Iterator[Stack]:
    for line in lines:
        # Each function has its file in parentheses; the rest of a command line has not.
        if functions := tuple(frame for frame in line[1].split(";") if frame.endswith(")")):
            yield Stack("function", functions, "", None, int(line[2]) / rate)
