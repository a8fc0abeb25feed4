"""One hour of exporters and collector: eight simulated GPUs with seven MIG instances each, at 1 Hz.

Runs come and go meanwhile, on one instance after the other, so that there are always new ones to be told of. What a process
holds is its resident memory after the first tenth of the time, by when all is imported and met, and at the end.
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

from benchmarks.servers import Kind, own_database
from benchmarks.stack import RunningStack, cpu_seconds, running
from hypergauge.gpu import inventory

__all__ = ["measure"]

SIMULATED = "8xH100:7x1g.10gb"
LISTENERS = ("nvml", "dcgm")
_RUN_SECONDS = 15.0
_SPIN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: time.sleep(0.01)"


def measure(minutes: float = 60.0, server: Kind | None = None) -> dict[str, float | str]:
    """Return growth in MiB, missed scrapes and CPU shares of exporters and collector, over so many minutes."""
    with own_database("soak", server) as database, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder)
        with running(database, home, LISTENERS, simulate=SIMULATED) as stack:
            return {"simulated": SIMULATED, **_watched(stack, home, minutes * 60)}


def _watched(stack: RunningStack, home: Path, seconds: float) -> dict[str, float | str]:
    watched = {**stack.listeners, "collector": stack.collector}
    instances = itertools.cycle([i.uuid for gpu in inventory(SIMULATED, home).gpus for i in gpu.mig])
    began = time.monotonic()
    _runs_until(began + seconds / 10, instances)
    memory = {name: psutil.Process(process.pid).memory_info().rss for name, process in watched.items()}
    used = {name: cpu_seconds(process.pid) for name, process in watched.items()}
    since, before = time.time(), _series(stack)
    runs = _runs_until(began + seconds, instances)
    until = time.time()
    figures: dict[str, float | str] = {"seconds": until - since, "runs": float(runs)}
    for name, process in watched.items():
        grown = psutil.Process(process.pid).memory_info().rss - memory[name]
        figures[f"{name}_grown_mib"] = grown / 2**20
        figures[f"{name}_cpu_share"] = (cpu_seconds(process.pid) - used[name]) / (until - since)
    figures["series_added"] = float(_series(stack) - before)
    time.sleep(5)  # what was scraped last is written by then
    for name, scrapes, longest in _scrapes(stack, since, until):
        figures[f"{name}_scrapes"] = float(scrapes)
        figures[f"{name}_missed"] = float(round(until - since) - scrapes)
        figures[f"{name}_longest_gap_seconds"] = longest
    return figures


def _runs_until(deadline: float, instances: itertools.cycle[str]) -> int:
    """Start a run of `_RUN_SECONDS` every three seconds until `deadline` (monotonic); return how many there were."""
    going: list[subprocess.Popen[bytes]] = []
    count = 0
    while (now := time.monotonic()) < deadline:
        variables = {"BENCH_RUN_ID": uuid.uuid4().hex, "CUDA_VISIBLE_DEVICES": next(instances)}
        going = [run for run in going if run.poll() is None]
        going.append(
            subprocess.Popen([sys.executable, "-c", _SPIN, str(_RUN_SECONDS)], env={**os.environ, **variables})
        )
        count += 1
        time.sleep(max(now + 3 - time.monotonic(), 0))
    for run in going:
        run.wait()
    return count


def _series(stack: RunningStack) -> int:
    with stack.database.session() as connection:
        row = connection.execute("select count(*) from series").fetchone()
    return row[0] if row else 0


def _scrapes(stack: RunningStack, since: float, until: float) -> list[tuple[str, int, float]]:
    """Return, by exporter, how many scrapes there were between two times (Unix seconds) and the longest gap of them."""
    query = """
        select listener, count(*), max(gap) from (
            select listener, extract(epoch from time - lag(time) over (partition by listener order by time))::float8 as gap
            from samples join series using (series_id) join targets using (target_id)
            where metric = 'bench_exporter_up' and time >= to_timestamp(%s) and time < to_timestamp(%s)) x
        group by listener order by listener
        """
    with stack.database.session() as connection:
        return connection.execute(query, (since, until)).fetchall()
