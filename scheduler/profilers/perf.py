"""``perf stat``: CPU counters of a command and its children, once per second."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.pages import Page
from hypergauge.scheduler.profilers.base import Profiler

__all__ = ["EVENTS", "Perf"]

# perf omits events that the processor or virtual machine does not support. The last two are software events.
EVENTS = (
    "instructions", "cycles", "LLC-loads", "LLC-load-misses", "branches", "branch-misses", "context-switches",
    "page-faults",
)  # fmt: skip
_PARANOID = "kernel.perf_event_paranoid"


class Perf(Profiler):
    """``perf stat`` with an interval of 1 s. The exporter ``process`` reads its file during the run."""

    name = "perf"
    report = RunFolder.PERF
    install = "sudo apt-get install linux-perf (on Ubuntu linux-tools-generic)"

    def problem(self, python: str) -> str | None:
        """See `Profiler.problem`; also try a short count, and return its error."""
        return super().problem(python) or _refusal(self.program)

    def wrap(self, words: Sequence[str], folder: Path, options: Mapping[str, str]) -> list[str]:
        """Return the command line of ``perf stat``."""
        del options  # it has none
        return [self.program, "stat", "-I", "1000", *_format(folder / self.report), "--", *words]


def _format(output: Path) -> list[str]:
    # Semicolons, because some locales write numbers with commas.
    return ["-x", ";", "-e", ",".join(EVENTS), "-o", str(output)]


@functools.cache
def _refusal(program: str) -> str | None:
    """Return the reason why perf cannot count here. A trial covers limits of kernel, container and distribution."""
    try:
        tried = subprocess.run(
            [program, "stat", *_format(Path("/dev/null")), "--", "true"],
            capture_output=True, text=True, errors="replace", timeout=30, check=False,
        )  # fmt: skip
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


def _paranoid() -> int | None:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return None
