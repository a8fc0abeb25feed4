"""``perf stat``: the processor's counters of a command and its children, once a second."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.profilers.base import Profiler

__all__ = ["EVENTS", "Perf"]

# What a processor, or a virtual machine, does not count is left out by itself; the last two are the kernel's own.
EVENTS = (
    "instructions", "cycles", "LLC-loads", "LLC-load-misses", "branches", "branch-misses", "context-switches",
    "page-faults",
)  # fmt: skip
_PARANOID = "kernel.perf_event_paranoid"


class Perf(Profiler):
    """Counts. The exporter ``process`` reads the file while it grows."""

    name = "perf"
    report = RunFolder.PERF
    install = "sudo apt-get install linux-perf (on Ubuntu linux-tools-generic)"

    def problem(self, python: str) -> str | None:
        """Return also what it says where it may not count."""
        return super().problem(python) or _refusal(self.program)

    def wrap(self, words: Sequence[str], folder: Path) -> list[str]:
        """Return ``perf stat`` of the command."""
        return [self.program, "stat", "-I", "1000", *_format(folder / self.report), "--", *words]


def _format(output: Path) -> list[str]:
    # Not commas: perf writes its numbers as the locale does.
    return ["-x", ";", "-e", ",".join(EVENTS), "-o", str(output)]


@functools.cache
def _refusal(program: str) -> str | None:
    """Return why perf does not count here; it is tried, since kernels, containers and distributions all have a say."""
    try:
        tried = subprocess.run(
            [program, "stat", *_format(Path("/dev/null")), "--", "true"],
            capture_output=True, text=True, errors="replace", timeout=30, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"perf does not work here: {error}"
    if tried.returncode == 0:
        return None
    said = next((line.strip() for line in tried.stderr.splitlines() if line.strip(" :")), f"status {tried.returncode}")
    level = _paranoid()
    if level is not None and level > 2:
        return f"perf may not count here, since {_PARANOID} is {level}: sudo sysctl {_PARANOID}=1"
    return f"perf does not work here: {said}"


def _paranoid() -> int | None:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return None
