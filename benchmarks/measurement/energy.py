"""Energy of runs on the first GPU, alone, in turns and under MPS, against its counter, which this process reads too.

The runs are those of ``bench schedule``. The counter is read ten times per second, as often as the driver updates it.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.support.servers import own_database
from hypergauge.gpu import load
from hypergauge.scheduler.devices.mps import program
from hypergauge.sql.server.database import Connection

__all__ = ["energies"]

_EVERY = 0.1
_HEADINGS = ("Experiment", "Workload", "Name", "Devices", "Collocation", "File", "Params")


def energies(script: Path, params: str, *, simulate: str | None = None) -> dict[str, float | str]:
    """Return ratios to the counter's increase during each workload: 1 where all is measured and divided right.

    ``energy_alone`` is the GPU's energy as stored, ``energy_alone_divided`` that of the runs and of idling together. The same
    for ``turns`` and ``mps``, which is left out on a host without MPS.

    Parameters
    ----------
    script, params
        Training and its arguments: one run, or two at the same time.
    simulate
        Simulated GPUs, see `hypergauge.gpu.load`.
    """
    ways = ["alone", "turns", *(["mps"] if simulate or program() else [])]
    with own_database("energy", None) as database, tempfile.TemporaryDirectory(prefix="bench-") as name:
        home = Path(name)
        shutil.copy(script, home / script.name)
        _write(home / "energy.csv", ways, script.name, params)
        variables = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
        variables |= {"BENCH_HOME": str(home / "h"), "BENCH_DSN": database.dsn}
        with _counter(simulate, home / "h") as read:
            subprocess.run(
                [sys.executable, "-m", "hypergauge.cli", "schedule", "energy.csv"],
                cwd=home,
                env={**variables, **({"BENCH_SIMULATE": simulate} if simulate else {})},
                stdout=subprocess.DEVNULL,
                check=True,
            )
        with database.session() as connection:
            return dict(_ratios(connection, ways, read))


def _write(path: Path, ways: Sequence[str], script: str, params: str) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_HEADINGS)
        for workload, way in enumerate(ways, 1):
            for run in range(1 if way == "alone" else 2):
                mode = "MPS" if way == "mps" else "-"
                writer.writerow([1, workload, f"{way}-{run}", 0, mode, script, params])


@contextmanager
def _counter(simulate: str | None, home: Path) -> Iterator[list[tuple[float, float]]]:
    """Read the first GPU's counter in a thread: Unix seconds and joules."""
    nvml = load(simulate, home)
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    read, ended = list[tuple[float, float]](), threading.Event()

    def follow() -> None:
        while not ended.wait(_EVERY):
            read.append((time.time(), nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield read
    finally:
        ended.set()
        thread.join()
        nvml.nvmlShutdown()


def _ratios(
    connection: Connection, ways: Sequence[str], read: Sequence[tuple[float, float]]
) -> Iterator[tuple[str, float]]:
    times, joules = np.array(read).T
    for workload, way in enumerate(ways, 1):
        rows = connection.execute(
            """
            select r.run_id, extract(epoch from r.started_at)::float8, extract(epoch from r.ended_at)::float8
            from runs r join workloads w using (workload_id) where w.workload = %s and r.status = 'finished'
            order by r.ended_at - r.started_at desc
            """,
            (workload,),
        ).fetchall()
        runs = [run_id for run_id, _, _ in rows]
        span = min(start for _, start, _ in rows), max(end for _, _, end in rows)
        counted = float(np.diff(np.interp(span, times, joules))[0])
        # The longest run was there all the time.
        whole = _total(connection, "metric = 'bench_gpu_energy_joules_total'", runs[:1])
        own = _total(connection, "quantity = 'gpu_energy_attributed' and metric is null and device is null", runs)
        idle = _total(connection, "quantity = 'gpu_energy_idle' and metric is null and device is null", runs[:1])
        yield f"energy_{way}", whole / counted
        yield f"energy_{way}_divided", (own + idle) / counted


def _total(connection: Connection, condition: str, runs: Sequence[str]) -> float:
    """Return the sum over runs of a quantity's total in the scope that covers most of each run."""
    [(found,)] = connection.execute(
        f"""
        select coalesce(sum(total), 0) from (
            select distinct on (run_id) total from run_summary
            where run_id = any(%s) and {condition} order by run_id, seconds desc) each
        """.encode(),
        (list(runs),),
    ).fetchall()
    return float(found)
