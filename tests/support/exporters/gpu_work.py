"""Simulated GPUs, and processes on them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from hypergauge.simulation import SimulatedNvml, World
from tests.support.waiting import HUNG_SECONDS

T = TypeVar("T")

BUSY = "while True: pass"
IDLE = "import signal; signal.pause()"


@contextmanager
def on_gpu(devices: str, script: str = BUSY, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of a run with `devices`, UUIDs joined by commas; kill it at the end.

    Variables are added to its environment, and empty ones removed.
    """
    all_of_them = {"BENCH_RUN_ID": uuid.uuid4().hex, "CUDA_VISIBLE_DEVICES": devices, **variables}
    environment = {**os.environ, **all_of_them}
    process = subprocess.Popen(
        [sys.executable, "-c", script], env={name: value for name, value in environment.items() if value}
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def eventually(look: Callable[[], T], enough: Callable[[T], bool] = bool, seconds: float = HUNG_SECONDS) -> T:
    """Repeat a query until its answer is `enough`, and return it."""
    deadline = time.monotonic() + seconds
    while not enough(seen := look()):
        assert time.monotonic() < deadline, f"it did not happen in time: {seen!r}"
        time.sleep(0.03)
    return seen


def opened(specification: str, home: Path | None = None, dcgm: bool = False) -> SimulatedNvml:
    """Return NVML of a simulated world, shared with other processes through `home`."""
    nvml = SimulatedNvml(World.open(specification, home and home / "simulated"), dcgm)
    nvml.nvmlInit()
    return nvml


def activity(nvml: SimulatedNvml, handle: Any) -> int:
    """Return the utilization of a GPU in per cent."""
    return int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def pids(processes: list[Any]) -> list[int]:
    """Return the pids of processes in NVML's order."""
    return [process.pid for process in processes]


def gpm(nvml: SimulatedNvml, first: Any, second: Any, *numbers: int) -> dict[int, tuple[int, float]]:
    """Return GPM's metrics between two samples, by number: NVML's status and the value."""
    query = pynvml.c_nvmlGpmMetricsGet_t()
    query.version, query.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(numbers)
    query.sample1, query.sample2 = first, second
    for index, number in enumerate(numbers):
        query.metrics[index].metricId = number
    nvml.nvmlGpmMetricsGet(query)
    return {metric.metricId: (metric.nvmlReturn, metric.value) for metric in query.metrics[: len(numbers)]}
