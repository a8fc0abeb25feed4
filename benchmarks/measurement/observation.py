"""Observation of a running training: its steps in windows with something on or off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.measurement.windows import Window
from benchmarks.training.members import TRAINER
from benchmarks.training.stepping import SUFFIX, members_of
from benchmarks.training.steps import Progress, progress_at, steps_logged

__all__ = ["GUARD_SECONDS", "ONE_THREAD", "ROOT", "START_SECONDS", "WINDOW_SECONDS", "await_steps", "observed"]

# Whole numbers of scrapes at each rate, so that every window has the mean cost.
WINDOW_SECONDS = 4.0
# Dropped after each switch: scrapes that are late after a stop, and the last transaction of the collector before one.
GUARD_SECONDS = 1.0
# Until imports, allocations and files are done.
START_SECONDS = 120.0
# Folder and environment of a training: each of its processes computes in one thread.
ROOT = Path(__file__).parents[2]
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
_WARM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Cores:
    """Counters of all cores: seconds in all modes, seconds stolen by the hypervisor, clock rate in MHz."""

    total: float
    stolen: float
    frequency: float

    @classmethod
    def read(cls) -> _Cores:
        times, rate = psutil.cpu_times(), psutil.cpu_freq()
        guests = times.guest + times.guest_nice  # also part of `user` and `nice`
        return cls(sum(times) - guests, times.steal, rate.current if rate else 0.0)


def observed(states: Sequence[bool], switch: Callable[[bool], None], logs: Path) -> Iterator[Window]:
    """Yield a window for each state, to which `switch` sets what is observed; `logs` has the steps of the training."""
    for on in states:
        switch(on)
        start = time.monotonic() + GUARD_SECONDS
        _sleep_until(start)
        before = _Cores.read()
        end = start + WINDOW_SECONDS
        _sleep_until(end)
        after = _Cores.read()
        trainers, all_members = _between(logs, start, end)
        yield Window(
            rate=trainers / WINDOW_SECONDS,
            cpu_seconds=all_members,
            steal=(after.stolen - before.stolen) / max(after.total - before.total, 1e-9),
            frequency=(before.frequency + after.frequency) / 2,
        )


def _between(logs: Path, start: float, end: float) -> tuple[float, float]:
    """Return the trainers' steps and all members' CPU seconds between two times."""
    steps = seconds = 0.0
    for path in sorted(logs.glob(f"*{SUFFIX}")):
        progress = _progress(path, start, end)
        seconds += float(np.diff(progress.cpu_seconds)[0])
        if path.name.startswith(TRAINER):
            steps += float(np.diff(progress.steps)[0])
    return steps, seconds


def _progress(path: Path, start: float, end: float) -> Progress:
    """Wait for the step after `end`, if necessary."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return progress_at(path, (start, end))
        except ValueError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def await_steps(logs: Path) -> None:
    """Wait until each member has made a step, and some seconds more."""
    deadline = time.monotonic() + START_SECONDS
    while not (names := members_of(logs)) or not all(steps_logged(logs / f"{name}{SUFFIX}") for name in names):
        if time.monotonic() > deadline:
            raise RuntimeError("the training does not start")
        time.sleep(0.2)
    time.sleep(_WARM_SECONDS)


def _sleep_until(moment: float) -> None:
    time.sleep(max(moment - time.monotonic(), 0))
