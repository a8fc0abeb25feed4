"""CPU time of exporters, collector and database, and of other tools.

Shares are of one core, over a minute, from each process's own CPU clock (clock_getcpuclockid(3)), which counts
nanoseconds where ``/proc/PID/stat`` counts hundredths of a second. The collector writes into a real database; its CPU time
is a separate result. A training keeps every core busy, as on any measured host. The other tools measure at 1 Hz.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any

from benchmarks.support.recording import EXPORTERS, SCRIPT
from benchmarks.support.servers import server_seconds
from benchmarks.support.stack import RunningStack, cpu_seconds

__all__ = ["shares"]

SECONDS = 60
# One command for each of radT's exporters; `ps` has no interval of its own.
TOOLS = (("top", "-b", "-d", "1"), ("free", "-s", "1"), ("iostat", "1"))
PS = ("ps", "-e", "-o", "pid,ppid,time,rss,comm")


def shares(stack: RunningStack) -> dict[str, float | str]:
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
    comparable = sum(used[name] for name in EXPORTERS)  # the tools measure no GPU
    all_tools = sum(used[name] for name in tools) + once / seconds
    return {
        "exporters_cpu_share": exporters,
        **{f"{name}_cpu_share": used[name] for name in stack.exporters},
        "tools_cpu_share": all_tools,
        **{f"{name}_cpu_share": used[name] for name in tools},
        "ps_cpu_share": once / seconds,
        "tools_missing": ", ".join(missing) or "none",
        "exporters_vs_tools": comparable / all_tools if all_tools else math.nan,
        "collector_cpu_share": used["collector"],
        "collector_samples_per_second": written / seconds,
        "database_cpu_share": server / seconds,
    }


def _training(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *words],
        env={**os.environ, "BENCH_RUN_ID": uuid.uuid4().hex, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def _end(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()


def _run_once(command: Sequence[str]) -> float:
    """Run a command and return its CPU seconds."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime
