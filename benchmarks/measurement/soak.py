"""One hour of exporters and collector: eight simulated GPUs with seven MIG instances each, at 1 Hz.

Runs start and end meanwhile, on one instance after the other. Growth of a process is the difference of its resident memory
after a tenth of the time, when all modules and series are loaded, and at the end.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psutil

from benchmarks.support.servers import Kind, own_database
from benchmarks.support.stack import RunningStack, cpu_seconds, running
from hypergauge.gpu import inventory
from hypergauge.sql.server.rows import value

__all__ = ["measure"]

SIMULATED = "8xH100:7x1g.10gb"
EXPORTERS = ("nvml", "dcgm")
_RUN_SECONDS = 15.0
_SPIN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: time.sleep(0.01)"


def measure(minutes: float = 60.0, server: Kind | None = None) -> dict[str, float | str]:
    """Return growth in MiB, missed scrapes and CPU shares of exporters and collector, over that many minutes."""
    with own_database("soak", server) as database, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder)
        with running(database, home, EXPORTERS, simulate=SIMULATED) as stack:
            return {"simulated": SIMULATED, **_watched(stack, home, minutes * 60)}


def _watched(stack: RunningStack, home: Path, seconds: float) -> dict[str, float | str]:
    watched = {**stack.exporters, "collector": stack.collector}
    instances = itertools.cycle([i.uuid for gpu in inventory(SIMULATED, home).gpus for i in gpu.mig])
    began = time.monotonic()
    _runs_until(began + seconds / 10, instances)
    memory = {name: psutil.Process(process.pid).memory_info().rss for name, process in watched.items()}
    used = {name: cpu_seconds(process.pid) for name, process in watched.items()}
    since, before = time.time(), _series(stack)
    runs = _runs_until(began + seconds, instances)
    until = time.time()
    results: dict[str, float | str] = {"seconds": until - since, "runs": float(runs)}
    for name, process in watched.items():
        grown = psutil.Process(process.pid).memory_info().rss - memory[name]
        results[f"{name}_grown_mib"] = grown / 2**20
        results[f"{name}_cpu_share"] = (cpu_seconds(process.pid) - used[name]) / (until - since)
    results["series_added"] = float(_series(stack) - before)
    time.sleep(5)  # until the last scrapes are written
    for name, scrapes, longest in _scrapes(stack, since, until):
        results[f"{name}_scrapes"] = float(scrapes)
        results[f"{name}_missed"] = float(round(until - since) - scrapes)
        results[f"{name}_longest_gap_seconds"] = longest
    return results


def _runs_until(deadline: float, instances: itertools.cycle[str]) -> int:
    """Start a run of `_RUN_SECONDS` every three seconds until `deadline` (monotonic); return their number."""
    started: list[subprocess.Popen[bytes]] = []
    count = 0
    while (now := time.monotonic()) < deadline:
        variables = {"BENCH_RUN_ID": uuid.uuid4().hex, "CUDA_VISIBLE_DEVICES": next(instances)}
        started = [run for run in started if run.poll() is None]
        started.append(
            subprocess.Popen([sys.executable, "-c", _SPIN, str(_RUN_SECONDS)], env={**os.environ, **variables})
        )
        count += 1
        time.sleep(max(now + 3 - time.monotonic(), 0))
    for run in started:
        run.wait()
    return count


def _series(stack: RunningStack) -> int:
    with stack.database.session() as connection:
        return value(connection, int, "select count(*) from series")


def _scrapes(stack: RunningStack, since: float, until: float) -> list[tuple[str, int, float]]:
    """Return the number of scrapes and the longest gap between two times (Unix seconds), by exporter."""
    query = """
        select listener, count(*), max(gap) from (
            select listener, extract(epoch from time - lag(time) over (partition by listener order by time))::float8 as gap
            from samples join series using (series_id) join targets using (target_id)
            where metric = 'bench_exporter_up' and time >= to_timestamp(%s) and time < to_timestamp(%s)) x
        group by listener order by listener
        """
    with stack.database.session() as connection:
        return connection.execute(query, (since, until)).fetchall()
