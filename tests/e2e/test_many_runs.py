"""Many short runs: no process, descriptor, connection, file or memory is left."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.home import Home
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.quiet, pytest.mark.slow]

WORKLOADS, TOGETHER = 40, 5
# The collector keeps the series of each run in mind, and the scheduler how it ended: some 15 and 20 KiB.
SERVICE_BYTES_PER_RUN = 64 << 10
SCHEDULER_BYTES_PER_RUN = 64 << 10
# MLflow answers in a pool of up to 40 threads, and each may open a connection.
POOL, BYTES_PER_THREAD = 40, 1 << 20


@dataclass(frozen=True)
class Sample:
    """A process at one moment: its resident bytes, descriptors, threads, and children."""

    resident: int
    descriptors: int
    threads: int
    children: int

    @classmethod
    def of(cls, pid: int) -> Sample:
        process = psutil.Process(pid)
        return cls(process.memory_info().rss, process.num_fds(), process.num_threads(), len(process.children()))


def services(home: Home) -> dict[str, int]:
    """Return the processes of the stack, by name."""
    return {path.stem: json.loads(path.read_text())["pid"] for path in (home.path / "stack").glob("*.service")}


def processes_of(run_ids: Set[str]) -> set[int]:
    """Return the processes that belong to these runs or supervise them."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            variables = process.environ()
            if {variables.get("BENCH_RUN_ID"), variables.get("BENCH_SUPERVISOR")} & run_ids:
                found.add(process.pid)
    return found


def connections(home: Home) -> int:
    [row] = home.query("select count(*)::int as n from pg_stat_activity where application_name = 'hypergauge'")
    return int(row["n"])


def files(home: Home) -> set[Path]:
    """Return the files of a home but those of the database, of runs and their artifacts, and of the spool."""
    found = set()
    for folder, folders, names in os.walk(home.path):
        if Path(folder) == home.path:
            folders[:] = set(folders) - {"postgres", "runs", "artifacts", "spool"}
        found |= {Path(folder) / name for name in names}
    return found


def test_many_short_runs_leave_nothing(home: Home) -> None:
    rows = [f"90,{workload},{{scripts}}/nothing.py" for workload in range(1, WORKLOADS + 1) for _ in range(TOGETHER)]
    sheet = home.sheet("many", "Experiment,Workload,File", rows)
    first = home.sheet("first", "Experiment,Workload,File", ["91,1,{scripts}/nothing.py"])
    home.bench("schedule", first.path)  # what is made once and for all
    before = {name: Sample.of(pid) for name, pid in services(home).items()}
    held, there, spooled = connections(home), files(home), len(list((home.path / "spool").rglob("*")))

    schedule = home.start("schedule", sheet.path)
    samples: list[Sample] = []
    while schedule.process.poll() is None:
        with contextlib.suppress(psutil.Error):
            samples.append(Sample.of(schedule.process.pid))
        time.sleep(0.1)
    schedule.wait()

    runs = home.runs(90)
    assert [run["status"] for run in runs] == ["finished"] * WORKLOADS * TOGETHER
    assert not processes_of({run["run_id"] for run in runs})
    after = {name: Sample.of(pid) for name, pid in services(home).items()}
    assert after.keys() == before.keys()
    for name, now in after.items():
        was, pool = before[name], POOL if name == "mlflow" else 0
        grown = now.resident - was.resident
        assert grown <= SERVICE_BYTES_PER_RUN * len(runs) + BYTES_PER_THREAD * pool, (
            f"{name} has grown by {grown} bytes"
        )
        assert now.descriptors <= was.descriptors + 3 + pool, name
        assert now.threads <= was.threads + 2 + pool, name
        assert now.children <= was.children, name
    wait_for(lambda: connections(home) <= held, "the end of all connections that are open for a moment")
    assert files(home) == there
    assert len(list((home.path / "spool").rglob("*"))) <= spooled + 2

    # While a whole workload runs, for only moments of the same state can be compared; and not in the first quarter, when
    # the scheduler has not yet made everything that it makes once.
    assert max(sample.children for sample in samples) <= TOGETHER + 4  # git and others run besides
    full = [sample for sample in samples if sample.children == TOGETHER]
    quarter = len(full) // 4
    early, late = full[quarter : 2 * quarter], full[-quarter:]
    assert min(sample.descriptors for sample in late) <= min(sample.descriptors for sample in early) + 2
    assert min(sample.threads for sample in late) <= min(sample.threads for sample in early) + 1
    grown = max(sample.resident for sample in late) - max(sample.resident for sample in early)
    assert grown <= SCHEDULER_BYTES_PER_RUN * len(runs) / 2, f"the scheduler has grown by {grown} bytes"
