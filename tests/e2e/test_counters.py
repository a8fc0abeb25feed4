"""Counters and recordings of ``perf`` for real runs: chosen events, presets, defaults, and native functions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hypergauge.scheduler.profilers import PROFILERS
from tests.support.fakes.perf import installed_perf
from tests.support.home import Home
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,File,Listeners,Params"
# A mapping touches each page for the first time, which is a minor fault unless pages are huge.
TOUCH = """
import mmap, time
from hypergauge import track

with track.phase("touch"):
    end = time.monotonic() + 3
    while time.monotonic() < end:
        with mmap.mmap(-1, 4 << 20) as memory:
            if hasattr(mmap, "MADV_NOHUGEPAGE"):
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(0, len(memory), mmap.PAGESIZE):
                memory[page] = 1
with track.phase("rest"):
    time.sleep(2.5)
"""
BUSY_C = """
__attribute__((noinline)) double hot_loop(long steps) {
    double sum = 0;
    for (long at = 1; at < steps; at++) sum += 1.0 / at;
    return sum;
}
"""
BUSY = """
import ctypes, sys, time
from hypergauge import track

hot_loop = ctypes.CDLL(sys.argv[1]).hot_loop
hot_loop.argtypes, hot_loop.restype = [ctypes.c_long], ctypes.c_double
with track.phase("hot"):
    end = time.process_time() + 1.5
    while time.process_time() < end:
        hot_loop(1_000_000)
"""


def real_perf(name: str) -> None:
    """Skip the test where perf is not installed or may not count."""
    if problem := PROFILERS[name].problem(sys.executable):
        pytest.skip(problem)


def total(home: Home, run_id: str, quantity: str) -> float:
    """Wait for the total of a quantity of a run's own processes, and return it."""
    found = wait_for(
        lambda: home.query(
            "select total from run_summary where run_id = %s and quantity = %s and scope = 'process' and metric is null",
            run_id, quantity,
        ),
        f"{quantity} of {run_id}",
    )  # fmt: skip
    return float(found[0]["total"])


def written(home: Home, run_id: str, event: str) -> float:
    """Return the sum of an event in the file of perf."""
    lines = (home.path / "runs" / run_id / "perf.csv").read_text().splitlines()
    fields = [line.split(";") for line in lines if line.count(";") > 4]
    return sum(float(one[1]) for one in fields if one[3].partition(":")[0] == event)


def test_events_of_a_row_are_quantities(home: Home) -> None:
    real_perf("perf")
    script = home.folder / "touch.py"
    script.write_text(TOUCH)
    sheet = home.sheet(
        "chosen", HEADER, [f'105,1,chosen,{script},"perf(events=minor-faults,major-faults)",', f"105,2,usual,{script},perf,"]
    )
    home.bench("schedule", sheet.path)
    chosen, usual = home.runs(105)
    faults = total(home, chosen["run_id"], "perf_minor_faults")
    assert faults == pytest.approx(written(home, chosen["run_id"], "minor-faults"), rel=1e-4)
    assert faults > 1000
    assert total(home, usual["run_id"], "page_faults") > 1000
    assert not home.query("select 1 from run_summary where run_id = %s and quantity = 'page_faults'", chosen["run_id"])
    assert home.query("select profilers from runs where run_id = %s", chosen["run_id"]) == [
        {"profilers": "perf(events=minor-faults,major-faults)"}
    ]
    offered = {one["metric"]: one for one in home.json("metrics", "105/1")}
    assert (offered["perf_minor_faults"]["unit"], offered["perf_minor_faults"]["scope"]) == ("events/s", "process")
    # The phase that touches memory has the faults.
    phases = home.query(
        "select phase, avg(p.value) as mean from run_chart(array[%s], array['perf_minor_faults'], null, null, 1000, true, 1) p "
        "join lateral (select s.name as phase from spans s join runs r using (run_id) where s.run_id = p.run_id::uuid "
        "and s.kind = 'phase') x on true group by phase",
        chosen["run_id"],
    ) if False else []  # fmt: skip
    assert phases == []


def test_a_preset_gives_shares_for_each_phase(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{installed_perf(tmp_path / 'bin', 'intel_hybrid.csv')}{os.pathsep}{os.environ['PATH']}")
