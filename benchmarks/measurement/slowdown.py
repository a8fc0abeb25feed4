"""Slow-down of a training by measuring, which is switched on and off every few seconds within the training.

Off means that exporters, collector and the run's supervisor are stopped by SIGSTOP. The database server then idles. Its own
background work (checkpoints, autovacuum, TimescaleDB's jobs) runs in both states and cancels out; the CPU account has it.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.measurement.estimate import Estimate, ratio, trimmed
from benchmarks.measurement.observation import (
    GUARD_SECONDS,
    ONE_THREAD,
    ROOT,
    START_SECONDS,
    WINDOW_SECONDS,
    await_steps,
    observed,
)
from benchmarks.measurement.windows import Block, Window, contrast, planned
from benchmarks.support.servers import server_seconds
from benchmarks.support.stack import RunningStack, cpu_seconds
from benchmarks.support.supervised import supervised
from benchmarks.training.stepping import TrainingKind

__all__ = ["HALF_WIDTH", "LEASE_SECONDS", "MeasuredBlock", "results", "slow_down"]

HALF_WIDTH = 0.003
_BLOCKS_AT_LEAST = 10
# Leases are renewed every 4 s: once in each window, where 5 s by default would fall in the guards. Off lasts 10 s at most.
LEASE_SECONDS = 12.0


@dataclass(frozen=True, slots=True)
class MeasuredBlock:
    """Block with its windows."""

    block: Block
    windows: Sequence[Window]

    def contrast(self, value: Callable[[Window], float]) -> float:
        """Return the contrast of a value, on less off."""
        return contrast(self.block, [value(window) for window in self.windows])


@dataclass
class Account:
    """CPU seconds of measuring by part, and the time that it was on."""

    stack: RunningStack
    supervisor: int
    on_seconds: float = 0.0
    began: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self.began = self._used()

    @property
    def shares(self) -> dict[str, float]:
        """Return each part's share of all cores while on; upper bounds, since the database's has work while off too."""
        cpu_seconds_on = self.on_seconds * (os.cpu_count() or 1)
        return {part: (seconds - self.began[part]) / cpu_seconds_on for part, seconds in self._used().items()}

    def _used(self) -> dict[str, float]:
        return {
            "exporters": sum(cpu_seconds(process.pid) for process in self.stack.exporters.values()),
            "collector": cpu_seconds(self.stack.collector.pid),
            "supervisor": cpu_seconds(self.supervisor),
            "database": server_seconds(self.stack.database),
        }


def slow_down(
    stack: RunningStack, home: Path, kind: TrainingKind, *, seconds: float, seed: int
) -> dict[str, float | str]:
    """Return the slow-down of one kind of training within that many seconds, see `results`."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-steps-", dir=_memory()) as logs,
        tempfile.TemporaryDirectory(prefix="bench-files-") as files,
        supervised(
            stack.database,
            home,
            [sys.executable, "-m", "benchmarks.training.stepping", kind, logs, files],
            directory=ROOT,
            environment=ONE_THREAD,
            lease=LEASE_SECONDS,
            timeout=seconds + START_SECONDS + 60,
        ) as supervisor,
    ):
        await_steps(Path(logs))
        switch = _Switch(stack, supervisor)
        account = Account(stack, supervisor)
        deadline = time.monotonic() + seconds
        began, measured = time.monotonic(), list[MeasuredBlock]()
        try:
            for block in planned(Random(seed)):
                measured.append(MeasuredBlock(block, list(observed(block.measured, switch.set, Path(logs)))))
                account.on_seconds += sum(block.measured) * (WINDOW_SECONDS + GUARD_SECONDS)
                left = deadline - time.monotonic()
                if left < len(block.on) * (WINDOW_SECONDS + GUARD_SECONDS):
                    break
                if len(measured) >= _BLOCKS_AT_LEAST and _slower(measured, placebo=False).half_width <= HALF_WIDTH:
                    break
        finally:
            switch.set(True)
        minutes, half_width = (time.monotonic() - began) / 60, _slower(measured, placebo=False).half_width
        return {
            **results(measured, account.shares),
            "minutes": minutes,
            # The width falls with the square root of the time; from few blocks it is itself uncertain.
            "minutes_needed": minutes * max(half_width / HALF_WIDTH, 1) ** 2,
        }


def results(measured: Sequence[MeasuredBlock], shares: Mapping[str, float]) -> dict[str, float | str]:
    """Return the estimates from measured blocks, as relative changes with 95 % intervals.

    ``slow_down`` is trimmed and adjusted for steal and clock rate, ``plain`` neither. ``placebo`` has the estimator of
    ``slow_down``, where nothing was switched. ``cpu_per_step`` is the training's own CPU time for a step.
    `shares` are those of measuring in the time of all cores, by part. ``accounted`` adds them to ``cpu_per_step``, as lost
    to a training that keeps all cores busy.
    """
    cpu_share = sum(shares.values())
    switched = [one for one in measured if not one.block.placebo]
    slower, cpu = _slower(measured, placebo=False), _cpu_per_step(switched)
    accounted = Estimate(*((1 + one) / (1 - cpu_share) - 1 for one in (cpu.value, cpu.low, cpu.high)))
    plain = ratio(trimmed([one.contrast(_slowness) for one in switched], trim=0.0))
    windows = [(on, window) for one in switched for on, window in zip(one.block.on, one.windows, strict=True)]
    return {
        **_fields("slow_down", slower),
        **_fields("placebo", _slower(measured, placebo=True)),
        **_fields("plain", plain),
        **_fields("cpu_per_step", cpu),
        "measuring_cpu_share": cpu_share,
        **{f"{part}_cpu_share": share for part, share in shares.items()},
        **_fields("accounted", accounted),
        "steal_on": _mean(window.steal for on, window in windows if on),
        "steal_off": _mean(window.steal for on, window in windows if not on),
        "steps_per_second": _mean(window.rate for _, window in windows),
        "blocks": float(len(switched)),
        "placebo_blocks": float(len(measured) - len(switched)),
        "resolved": "resolved" if slower.half_width <= HALF_WIDTH else "not resolved",
    }


def _slower(measured: Sequence[MeasuredBlock], *, placebo: bool) -> Estimate:
    """Return the slow-down, or the placebo's."""
    blocks = [one for one in measured if one.block.placebo is placebo]
    covariates = [[one.contrast(read) for one in blocks] for read in (_steal, _frequency)]
    return ratio(trimmed([one.contrast(_slowness) for one in blocks], covariates))


def _cpu_per_step(blocks: Sequence[MeasuredBlock]) -> Estimate:
    return ratio(trimmed([one.contrast(lambda window: math.log(window.cpu_seconds / window.rate)) for one in blocks]))


def _slowness(window: Window) -> float:
    return -math.log(window.rate)


def _steal(window: Window) -> float:
    return window.steal


def _frequency(window: Window) -> float:
    return window.frequency


def _fields(name: str, estimate: Estimate) -> dict[str, float | str]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values) or [math.nan]))


@dataclass
class _Switch:
    """Switch of measuring, which is on at the beginning."""

    stack: RunningStack
    supervisor: int
    on: bool = True

    def set(self, on: bool) -> None:
        """Stop or continue all of its processes; no signal is sent without a change."""
        if on is not self.on:
            number = signal.SIGCONT if on else signal.SIGSTOP
            self.stack.signal(number)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.supervisor, number)
            self.on = on


def _memory() -> str | None:
    """Return the folder of a file system in memory, ``None`` if there is none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
