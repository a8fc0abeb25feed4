"""Cost of measuring: CPU time of exporters and collector, of other tools, and the slowdown of trainings.

Shares are of one core, over a minute at 1 Hz, from each process's own CPU clock (clock_getcpuclockid(3)), which counts
nanoseconds where ``/proc/PID/stat`` counts hundredths of a second. The collector writes into a real database; its CPU time
is a separate result. A training keeps every core busy, as on any measured host.

The slow-down compares trainings of a fixed amount of work, with exporters and collector running (B) and stopped (A), in
order A B B A so that a drift of the machine cancels out, until the 95 % confidence interval is narrow enough.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.support import telemetry
from benchmarks.support.recording import EXPORTERS, SCRIPT
from benchmarks.support.servers import Kind, exporter, own_database, server_seconds
from benchmarks.support.stack import RunningStack, cpu_seconds, running
from hypergauge.sql.schema.flavour import inspect

__all__ = ["measure"]

SECONDS = 60
HALF_WIDTH = 0.01
_BLOCK_SECONDS = 10.0
_BLOCKS_AT_LEAST = 3
# One command for each of radT's exporters; `ps` has no interval of its own.
TOOLS = (("top", "-b", "-d", "1"), ("free", "-s", "1"), ("iostat", "1"))
PS = ("ps", "-e", "-o", "pid,ppid,time,rss,comm")
# Student's t for 95 %, two-sided, by degrees of freedom; from scipy.stats.t.ppf(0.975, n).
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)


def measure(minutes: float = 20.0, server: Kind | None = None) -> dict[str, float | str]:
    """Return CPU shares and slow-down; ``resolved`` is whether it is known to 1 % within that many minutes."""
    with own_database("overhead", server) as database, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        with database.session() as connection:
            flavour = inspect(connection).flavour.value
        with exporter(_gpus()) as others, running(database, Path(folder), EXPORTERS, others={"gpus": others}) as stack:
            shares = _shares(stack)
            slow_down = _slow_down(stack, time.monotonic() + minutes * 60)
    return {"flavour": flavour, **shares, **slow_down}


def _shares(stack: RunningStack) -> dict[str, float | str]:
    """Return each process's share of a core while trainings run and the other tools measure them too."""
    missing = [tool[0] for tool in (*TOOLS, PS) if shutil.which(tool[0]) is None]
    tools = {
        tool[0]: subprocess.Popen(tool, stdout=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
        for tool in TOOLS
        if tool[0] not in missing
    }
    trainings = [_training("--seconds", str(SECONDS * 3)) for _ in range(os.cpu_count() or 1)]
    try:
        time.sleep(10)  # until start-up is over: imports, first scrapes, new series
        written = stack.samples()
        watched: dict[str, subprocess.Popen[Any]] = {**stack.exporters, "collector": stack.collector, **tools}
        before = {name: cpu_seconds(process.pid) for name, process in watched.items()}
        server, began = server_seconds(stack.database), time.monotonic()
        once = 0.0
        for second in range(1, SECONDS + 1):
            if PS[0] not in missing:
                once += _run_once(PS)
            time.sleep(max(began + second - time.monotonic(), 0))
        seconds = time.monotonic() - began
        used = {name: (cpu_seconds(process.pid) - before[name]) / seconds for name, process in watched.items()}
        server = server_seconds(stack.database) - server
        written = stack.samples() - written
    finally:
        for training in trainings:
            _end(training)
        for tool_process in tools.values():
            _end(tool_process)
    exporters = sum(used[name] for name in stack.exporters)
    all_tools = sum(used[name] for name in tools) + once / seconds
    return {
        "exporters_cpu_share": exporters,
        **{f"{name}_cpu_share": used[name] for name in stack.exporters},
        "tools_cpu_share": all_tools,
        **{f"{name}_cpu_share": used[name] for name in tools},
        "ps_cpu_share": once / seconds,
        "tools_missing": ", ".join(missing) or "none",
        "exporters_vs_tools": exporters / all_tools if all_tools else math.nan,
        "collector_cpu_share": used["collector"],
        "collector_samples_per_second": written / seconds,
        "database_cpu_share": server / seconds,
    }


def _slow_down(stack: RunningStack, deadline: float) -> dict[str, float | str]:
    epochs = _calibrated()
    ratios: list[float] = []
    half_width = math.inf
    while time.monotonic() < deadline and (len(ratios) < _BLOCKS_AT_LEAST or half_width >= HALF_WIDTH):
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for measured in (False, True, True, False):
            stack.signal(signal.SIGCONT if measured else signal.SIGSTOP)
            time.sleep(2)  # scrapes begin again, or the last transaction ends
            seconds[measured].append(_trained_seconds(epochs))
        ratios.append(math.log(statistics.mean(seconds[True]) / statistics.mean(seconds[False])))
        if len(ratios) > 1:
            student = _STUDENT[min(len(ratios) - 2, len(_STUDENT) - 1)]
            half_width = student * statistics.stdev(ratios) / math.sqrt(len(ratios))
    stack.signal(signal.SIGCONT)
    return {
        "slow_down": math.expm1(statistics.mean(ratios)) if ratios else math.nan,
        "half_width": half_width,
        "blocks_of_abba": float(len(ratios)),
        "resolved": "resolved" if len(ratios) >= _BLOCKS_AT_LEAST and half_width < HALF_WIDTH else "not resolved",
    }


def _calibrated() -> int:
    """Return the number of epochs in some ten seconds while all cores train."""
    few = 5
    return max(round(few * _BLOCK_SECONDS / _trained_seconds(few)), 1)


def _trained_seconds(epochs: int) -> float:
    """Train on every core at once; return the mean of the trainings' durations."""
    trainings = [_training("--epochs", str(epochs)) for _ in range(os.cpu_count() or 1)]
    output = [training.communicate()[0] for training in trainings]
    return statistics.mean(float(text.rpartition(" in ")[2].split()[0]) for text in output)


def _training(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *words],
        env={**os.environ, "BENCH_RUN_ID": uuid.uuid4().hex, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def _gpus() -> Callable[[], bytes]:
    """Return a function that gives the exposition of simulated GPUs, a second later at each call."""
    host = telemetry.Host()

    def exposition() -> bytes:
        host.tick(100.0)
        return host.dcgm()

    return exposition


def _end(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()


def _run_once(command: Sequence[str]) -> float:
    """Run a command and return its CPU seconds."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime
