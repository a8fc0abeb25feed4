"""Counters and recordings of ``perf`` for real runs: chosen events, presets, defaults, and native functions."""

from __future__ import annotations

import csv
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


# Events and mean of a quantity in each phase of a run.
OF_PHASES = """
    select s.name as phase, sum(x.value * o.seconds) as events, sum(x.value * o.seconds) / sum(o.seconds) as mean
    from run_samples x join spans s on s.run_id = x.run_id
    cross join lateral (
        select extract(epoch from least(x.time, s.ended_at) - greatest(x.time - make_interval(secs => x.dt), s.started_at))
            as seconds
    ) o
    where x.run_id = %s and x.quantity = %s and x.scope = 'process' and s.kind = 'phase' and o.seconds > 0
    group by s.name order by min(s.started_at)
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
    fields = [line.split(";") for line in lines if line.count(";") > 4 and "<not" not in line]
    return sum(float(one[1]) for one in fields if one[3].partition(":")[0] == event)


def test_events_of_a_row_are_quantities(home: Home) -> None:
    real_perf("perf")
    script = home.folder / "touch.py"
    script.write_text(TOUCH)
    sheet = home.sheet(
        "chosen",
        HEADER,
        [f'105,1,chosen,{script},"perf(events=minor-faults,major-faults)",', f"105,2,usual,{script},perf,"],
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
    offered = {one["quantity"]: one for one in home.json("metrics", "105/1")}
    assert (offered["perf_minor_faults"]["unit"], offered["perf_minor_faults"]["scopes"]) == ("events/s", "process")
    # Those of each phase: the memory is touched in the first one.
    by_phase = {one["phase"]: one["events"] for one in home.query(OF_PHASES, chosen["run_id"], "perf_minor_faults")}
    assert by_phase["touch"] > 10 * by_phase.get("rest", 0.0)


@pytest.mark.parametrize(
    ("experiment", "capture", "shares"),
    [
        (106, "intel_hybrid.csv", {"cpu_frontend_bound": 0.648, "cpu_memory_bound": 0.221, "cpu_retiring": 0.018}),
        (109, "amd_zen4.csv", {"cpu_frontend_bound": 0.021, "cpu_backend_bound": 0.149, "cpu_retiring": 0.81}),
    ],
)
def test_topdown_answers_for_each_phase(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, experiment: int, capture: str, shares: dict[str, float]
) -> None:
    folder = installed_perf(tmp_path / "bin", capture)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    script = home.folder / "touch.py"
    script.write_text(TOUCH)
    sheet = home.sheet("topdown", HEADER, [f"{experiment},1,bound,{script},perf,"])
    settings = home.folder / "bench.toml"
    before = settings.read_text() if settings.exists() else ""
    settings.write_text('[profilers]\nperf = "preset=topdown"\n')
    try:
        printed = home.bench("schedule", sheet.path)
    finally:
        settings.write_text(before)
    assert ("does not count memory bound here" in printed) == ("cpu_memory_bound" not in shares)
    [run] = home.runs(experiment)
    assert home.query("select profilers from runs where run_id = %s", run["run_id"])[0]["profilers"] == (
        "perf(preset=topdown)"
    )
    for quantity, share in shares.items():
        total(home, run["run_id"], quantity)
        means = {one["phase"]: one["mean"] for one in home.query(OF_PHASES, run["run_id"], quantity)}
        assert means == {"touch": pytest.approx(share, abs=0.002), "rest": pytest.approx(share, abs=0.002)}
    [compared] = home.json("compare", str(experiment))["runs"]
    retiring = compared["quantities"]["cpu_retiring"]
    assert (retiring["unit"], retiring["scope"]) == ("ratio", "process")
    assert retiring["mean"] == pytest.approx(shares["cpu_retiring"], abs=0.002)
    shown = csv.DictReader(home.bench("compare", str(experiment), "-m", "cpu_retiring", "--csv").splitlines())
    assert [float(row["cpu_retiring"]) for row in shown] == [pytest.approx(shares["cpu_retiring"], abs=0.002)]
    exported = tmp_path / "touch.csv"
    home.bench("export", str(experiment), "-m", "cpu_retiring", "--phase", "touch", "-o", exported)
    with exported.open(newline="") as file:
        values = [float(row["value"]) for row in csv.DictReader(file)]
    assert values == pytest.approx([shares["cpu_retiring"]] * len(values), abs=0.002)
    assert values


def test_events_and_presets_that_cannot_be_counted_are_refused_at_their_cell(home: Home) -> None:
    real_perf("perf")
    words = ["perf(preset=topdwn)", "perf(events=minor-fault)", "perf(events=minor-faults+cycles)"]
    sheet = home.sheet(
        "bad", HEADER, [f'107,{number},bad,{{scripts}}/nothing.py,"{word}",' for number, word in enumerate(words, 1)]
    )
    printed = " ".join(home.bench("schedule", sheet.path, status=2).split())
    column = sheet.path.read_text().splitlines()[1].index('"perf') + 1
    assert f"{sheet.path}:2:{column}: Listeners: perf has no preset 'topdwn' (did you mean 'topdown'?)" in printed
    assert (
        f"{sheet.path}:3:{column}: Listeners: perf has no event 'minor-fault' (did you mean 'minor-faults'?)" in printed
    )
    assert f"{sheet.path}:4:{column}: Listeners: 'perf(events=minor-faults' is no profiler with options" in printed
    assert home.runs(107) == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler: sudo apt-get install gcc")
def test_a_recording_names_the_native_function(home: Home, tmp_path: Path) -> None:
    real_perf("perf-record")
    source, library, script = tmp_path / "busy.c", tmp_path / "libbusy.so", home.folder / "busy.py"
    source.write_text(BUSY_C)
    script.write_text(BUSY)
    subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o", library, source], check=True)
    sheet = home.sheet("native", HEADER, [f'108,1,native,{script},"perf-record(rate=99)+perf",{library}'])
    home.bench("schedule", sheet.path)
    [run] = home.runs(108)
    [profile] = home.json("profile", "108/1/1", "--kind", "native", "--phase", "hot")
    assert (profile["profiler"], profile["rate"]) == ("perf-record", 99)
    [hot] = [one for one in profile["entries"] if one["name"] == "hot_loop (libbusy.so)"]
    assert hot["share"] > 0.5
    assert 0.5 < hot["self"] < 3
    first = home.bench("profile", "108/1/1", "--top", "1")
    assert "native functions" in first
    assert "hot_loop (libbusy.so)" in first
    assert home.artifact(run["mlflow_run_id"], "perf.data")[:8] == b"PERFILE2"
    report = home.folder / "native.html"
    home.bench("report", "108", "-o", report)
    assert "hot_loop (libbusy.so)" in report.read_text()
    assert not (Path.home() / ".debug").exists() or "libbusy.so" not in str(list((Path.home() / ".debug").rglob("*")))
