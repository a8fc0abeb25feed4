"""``perf record``: samples of the stacks of a command and its children, in native code and in the kernel."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from hypergauge.scheduler.profilers.base import Profiler
from hypergauge.scheduler.profilers.perf import INSTALL
from hypergauge.scheduler.profilers.perf_trial import refusal
from hypergauge.scheduler.profilers.reports.perf_script import read_samples
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording

__all__ = ["PerfRecord"]

# Samples per second of each busy thread. The rate is no divisor of common periods, so that no sample is in step with them.
_RATE = "49"


class PerfRecord(Profiler):
    """``perf record`` by the CPU's clock: each sample stands for the same time, with or without hardware counters."""

    name = "perf-record"
    report = "perf.data"
    install = INSTALL
    options: ClassVar[Mapping[str, str]] = {"rate": r"[1-9]\d{0,2}", "call-graph": "fp|dwarf"}

    @property
    def program(self) -> str:
        """See `Profiler.program`."""
        return shutil.which("perf") or "perf"

    def problem(self, python: str) -> str | None:
        """See `Profiler.problem`; also try a short recording, and return its error."""
        del python
        if shutil.which("perf") is None:
            return f"there is no program perf in PATH: {self.install}"
        return refusal(self.program, *_recording("/dev/null", {}))

    def option_problem(self, options: Mapping[str, str]) -> str | None:
        """See `Profiler.option_problem`."""
        problem = super().option_problem(options)
        rates = problem is not None and " rate " in problem and "rate" in options
        return f"{problem}: write 1 to 999 samples per second" if rates else problem

    def wrap(self, words: Sequence[str], folder: Path, options: Mapping[str, str]) -> list[str]:
        """Return the command line of ``perf record``."""
        return [self.program, *_recording(str(folder / self.report), options), "--", *words]

    def read(self, report: Path, phases: Phases) -> Recording:
        """See `Profiler.read`; ``perf script`` prints the report first."""
        return read_samples(self.program, report, phases)


def _recording(report: str, options: Mapping[str, str]) -> list[str]:
    # The monotonic clock, since perf writes its difference from the time of day into the report. The cache would copy
    # every library of the run to the home of the user.
    return [
        "record", "--event", "cpu-clock", "--freq", options.get("rate", _RATE), "--clockid", "CLOCK_MONOTONIC",
        "--call-graph", options.get("call-graph", "fp"), "--no-buildid-cache", "--output", report,
    ]  # fmt: skip
