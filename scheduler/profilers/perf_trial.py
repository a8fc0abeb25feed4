"""Trials of ``perf``: short counts that show what it counts on this host."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from hypergauge.core.pages import Page

__all__ = ["FORMAT", "Answer", "answer", "event_names", "refusal"]

# Semicolons, because some locales write numbers with commas.
FORMAT = ("-x", ";")
_PARANOID = "kernel.perf_event_paranoid"
_SECONDS = 30.0
# Status of perf where its arguments are wrong, such as the name of an event.
_USAGE = 129
# Events of the kernel, which perf counts as 0 where it may only count user mode.
_OF_THE_KERNEL = ("context-switches:u", "cpu-migrations:u", "cs:u", "migrations:u")


class Answer(StrEnum):
    """Answer of a trial."""

    COUNTED = "counted"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


@functools.cache
def answer(program: str, events: str) -> Answer:
    """Return whether perf counts all of `events` here, in the syntax of ``perf stat -e``."""
    try:
        tried = _run(program, "stat", *FORMAT, "-e", events, "--", "true")
    except (OSError, subprocess.TimeoutExpired):
        return Answer.UNSUPPORTED
    if tried.returncode:
        return Answer.UNKNOWN if tried.returncode == _USAGE else Answer.UNSUPPORTED
    lines = [line.split(";") for line in tried.stderr.splitlines()]
    counts = [fields[0] for fields in lines if len(fields) > 3 and fields[2] not in _OF_THE_KERNEL]
    # A hybrid processor has a line for each kind of core, and an event that one kind has is counted. A group is not
    # counted in part. The trial may be too short for all groups, so `<not counted>` is no refusal.
    wanted = all if "{" in events else any
    return Answer.COUNTED if counts and wanted(map(_is_possible, counts)) else Answer.UNSUPPORTED


def _is_possible(count: str) -> bool:
    return count.strip() != "<not supported>"


@functools.cache
def refusal(program: str, *words: str) -> str | None:
    """Return why ``perf WORDS -- true`` fails here; ``None`` if it works.

    A trial covers limits of kernel, container and distribution.
    """
    try:
        tried = _run(program, *words, "--", "true")
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"perf does not work here: {error}"
    if tried.returncode == 0:
        return None
    output = next(
        (line.strip() for line in tried.stderr.splitlines() if line.strip(" :")), f"status {tried.returncode}"
    )
    level = _paranoid()
    if level is not None and level > 2:
        return Page.PROFILERS.after(f"perf may not count here, since {_PARANOID} is {level}: sudo sysctl {_PARANOID}=1")
    return f"perf does not work here: {output}"


@functools.cache
def event_names(program: str) -> Sequence[str]:
    """Return the events that perf lists for this host; none if it lists none."""
    try:
        listed = _run(program, "list", "--raw-dump")
    except (OSError, subprocess.TimeoutExpired):
        return []
    return listed.stdout.split()


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
    )  # fmt: skip


def _paranoid() -> int | None:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return None
