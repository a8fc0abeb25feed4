"""Cost of a live profile, which is switched on and off every few seconds within a training, and of reading a big report."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.measurement.estimate import Estimate, ratio, trimmed
from benchmarks.measurement.observation import GUARD_SECONDS, ONE_THREAD, ROOT, WINDOW_SECONDS, await_steps, observed
from benchmarks.measurement.windows import Window, contrast, planned
from benchmarks.support.stack import cpu_seconds
from benchmarks.training.stepping import TrainingKind
from hypergauge.scheduler.profilers.py_spy import PySpy
from hypergauge.scheduler.profilers.reports.entries import entries
from hypergauge.scheduler.profilers.reports.kineto import read_trace
from hypergauge.scheduler.profilers.reports.stacks import Phases

__all__ = ["measure"]

EVENTS = 1_000_000


def measure(
    minutes: float = 5.0, kind: TrainingKind = TrainingKind.COMPUTE, hz: int = 20, seed: int = 1
) -> dict[str, float | str]:
    """Return the slow-down of a training that is profiled, with its 95 % interval, and the time to read a trace.

    Parameters
    ----------
    hz
        Samples per second.
    seed
        Seed of the order in which the profile is switched.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as name, _training(kind, Path(name)) as (pid, logs):
        profile = _Profile(pid, hz, Path(name) / "py-spy.txt")
        deadline = time.monotonic() + 60 * minutes
        contrasts, windows = list[float](), list[tuple[bool, Window]]()
        try:
            for block in planned(Random(seed)):
                seen = list(observed(block.measured, profile.set, logs))
                if not block.placebo:
                    contrasts.append(contrast(block, [-math.log(window.rate) for window in seen]))
                    windows += zip(block.on, seen, strict=True)
                if deadline - time.monotonic() < len(block.on) * (WINDOW_SECONDS + GUARD_SECONDS):
                    break
        finally:
            profile.set(False)
    found: Estimate = ratio(trimmed(contrasts))
    return {
        "kind": kind.value, "hz": float(hz), "blocks": float(len(contrasts)),
        "slow_down": found.value, "slow_down_low": found.low, "slow_down_high": found.high,
        "py_spy_cores": profile.used / max(profile.seconds, 1e-9),
        **_reading(),
    }  # fmt: skip


@dataclass
class _Profile:
    """py-spy on the processes of a training; `used` is its CPU time in `seconds`."""

    pid: int
    hz: int
    report: Path
    used: float = 0.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0

    def set(self, on: bool) -> None:
        """Start it, or let it write its report."""
        if on and self._process is None:
            words = [*PySpy().recording(self.report, self.hz), "--pid", str(self.pid)]
            self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self._began = time.monotonic()
        elif not on and self._process is not None:
            self.used += cpu_seconds(self._process.pid)
            self.seconds += time.monotonic() - self._began
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None


@contextmanager
def _training(kind: TrainingKind, folder: Path) -> Iterator[tuple[int, Path]]:
    with tempfile.TemporaryDirectory(prefix="bench-steps-", dir=folder) as logs:
        (folder / "files").mkdir()
        words = [sys.executable, "-m", "benchmarks.training.stepping", kind, logs, str(folder / "files")]
        with subprocess.Popen(words, cwd=ROOT, env={**os.environ, **ONE_THREAD}) as process:
            try:
                await_steps(Path(logs))
                yield process.pid, Path(logs)
            finally:
                process.terminate()


def _reading() -> dict[str, float | str]:
    """Return the time from a compressed trace of PyTorch to the entries."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        path = Path(name) / "torch_trace.json.gz"
        path.write_bytes(gzip.compress(_trace(), 1))
        began = time.perf_counter()
        entries(read_trace(path, Phases()).stacks)
        return {"trace_events": float(EVENTS), "trace_seconds": time.perf_counter() - began}


def _trace() -> bytes:
    """Return a trace of three nested operators, their launch and their kernel, again and again."""
    events = []
    for number in range(EVENTS // 5):
        at = 20.0 * number
        for depth, name in enumerate(("aten::linear", "aten::addmm", "aten::copy_")):
            events.append(_event("cpu_op", f"{name}", 1, at + depth, 18.0 - 4 * depth))
        events.append(_event("cuda_runtime", "cudaLaunchKernel", 1, at + 4, 5.0))
        events.append(_event("kernel", f"void gemm_{number % 40}<float>(float*)", 7, at + 6, 9.0))
    return json.dumps({"baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": events}).encode()


def _event(category: str, name: str, track: int, start: float, length: float) -> dict[str, object]:
    arguments = {"External id": track, "Ev Idx": 1}
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": track, "ts": start, "dur": length, "args": arguments
    }  # fmt: skip
