"""Runs under profilers: their reports, messages and ends."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from hypergauge.scheduler.profilers import PROFILERS
from tests.support.fakes.profilers import installed_profilers
from tests.support.home import Home, processes_of
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,File,Listeners,Params"


@pytest.fixture
def programs(home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for NVIDIA's profilers, in front of the shell's ``PATH``."""
    folder = installed_profilers(home.folder / "profilers", "nsys", "ncu")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed: sudo apt-get install linux-perf")
def test_perf_counts_a_run(home: Home) -> None:
    if problem := PROFILERS["perf"].problem(sys.executable):
        pytest.skip(problem)
    sheet = home.sheet(
        "perf",
        HEADER,
        [
            "70,1,plain,{scripts}/clocked.py,,--seconds 3",
            "70,1,counted,{scripts}/clocked.py,perf,--seconds 3",
            "70,1,failed,{scripts}/ends_badly.py,perf,exit",
        ],
    )
    home.bench("schedule", sheet.path, status=1)
    plain, counted, failed = home.runs(70)
    assert [run["status"] for run in (plain, counted, failed)] == ["finished", "finished", "failed"]
    assert failed["exit_code"] not in (0, None)  # perf's own status is 0 all the same
    printed = home.output(counted["run_id"]).splitlines()
    assert len(printed) == 2  # nothing but the script's
    assert b"page-faults" in home.artifact(counted["mlflow_run_id"], "perf.csv")
    marks = home.query(
        "select r.name, profiled from run_quality join runs r using (run_id) "
        "join workloads using (workload_id) where experiment_id = 70 order by position"
    )
    assert [(one["name"], one["profiled"]) for one in marks] == [("plain", False), ("counted", True), ("failed", True)]
    # The script fills 64 MiB and more: at least a page fault for each huge page. All of a run's count, to its last.
    found = wait_for(
        lambda: home.query(
            "select scope, total from run_summary where run_id = %s and quantity = 'page_faults' and metric is null",
            counted["run_id"],
        ),
        "the page faults of the run",
    )
    lines = [line.split(";") for line in (home.path / "runs" / counted["run_id"] / "perf.csv").read_text().splitlines()]
    written = sum(float(line[1]) for line in lines if len(line) > 4 and line[3] == "page-faults" and line[1][0] != "<")
    assert [(one["scope"], one["total"]) for one in found] == [("process", pytest.approx(written, rel=1e-4))]
    assert written > 64
    assert not home.query("select 1 from run_summary where run_id = %s and quantity = 'page_faults'", plain["run_id"])


def test_a_comparison_names_profiled_runs(home: Home, programs: Path) -> None:
    sheet = home.sheet(
        "compared",
        HEADER,
        ["71,1,plain,{scripts}/clocked.py,,--seconds 0", "71,1,timeline,{scripts}/clocked.py,nsys,--seconds 0"],
    )
    home.bench("schedule", sheet.path)
    runs = home.json("compare", "71")["runs"]
    assert [run["profiled"] for run in runs] == [[], ["nsys"]]
    printed = " ".join(home.bench("compare", "71").split())
    assert "71/1/2 ran under a profiler (nsys)" in printed
    assert "71/1/1 ran" not in printed
    run = home.runs(71)[1]
    assert home.artifact(run["mlflow_run_id"], "nsys.nsys-rep") == b"nsys 0\n"
    assert b"Generated: " in home.artifact(run["mlflow_run_id"], "profiler.log")
    [profile] = home.json("profile", "71/1/2")
    kinds = {one["kind"] for one in profile["entries"]}
    assert (profile["profiler"], kinds) == ("nsys", {"kernel", "memory", "cuda", "range", "system"})


def test_a_command_without_a_file_is_profiled_and_so_is_its_repetition(home: Home, programs: Path) -> None:
    home.bench("run", "--name", "profiled", "--listeners", "nsys", "--", sys.executable, "-c", "pass")
    [run] = home.query("select run_id, profilers from runs where name = 'profiled'")
    assert run["profilers"] == "nsys"
    home.bench("schedule", "--from-run", run["run_id"])
    again = home.query("select profilers from runs where name = 'profiled' and attempt = 2")
    assert again == [{"profilers": "nsys"}]
    (programs / "nsys").unlink()
    assert "nsight-systems" in home.bench("schedule", "--from-run", run["run_id"], status=2)


def test_a_run_that_is_stopped_has_its_report(
    home: Home, programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_PROFILER_SECONDS", "0.5")
    gate = tmp_path / "gate"
    sheet = home.sheet("stopped", HEADER, [f"72,1,waits,{{scripts}}/gate.py,ncu,{gate}"])
    schedule = home.start("schedule", sheet.path)
    [run] = home.running(72)
    home.bench("stop", "72")
    schedule.wait(status=1)
    [run] = home.runs(72)
    assert (run["status"], run["reason"], run["exit_code"]) == ("stopped", "stopped on request", 143)
    assert home.artifact(run["mlflow_run_id"], "ncu.ncu-rep") == b"ncu 143\n"
    [profile] = home.json("profile", "72/1/1")
    assert sum(one["calls"] for one in profile["entries"]) == 18
    assert not processes_of(run["run_id"])


def test_a_profiler_that_does_not_start_the_run(home: Home, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PROFILER_REFUSES", "==ERROR== no permission")
    sheet = home.sheet("refused", HEADER, ["73,1,never,{scripts}/clocked.py,ncu,--seconds 0"])
    home.bench("schedule", sheet.path, status=1)
    [run] = home.runs(73)
    assert run["reason"] == "ncu ended before its command: exit status 1: ==ERROR== no permission"


def test_profilers_that_cannot_be_used_are_refused_at_their_cell(home: Home, programs: Path) -> None:
    sheet = home.sheet("both", HEADER, ["74,1,both,{scripts}/clocked.py,top+nsys+ncu,--seconds 0"])
    column = sheet.path.read_text().splitlines()[1].index("top+") + 1
    printed = " ".join(home.bench("schedule", sheet.path, status=2).split())
    place = f"{sheet.path}:2:{column}:"
    assert f"{place} Listeners: nsys and ncu" in printed
    (programs / "nsys").unlink()
    (programs / "ncu").unlink()
    printed = " ".join(home.bench("schedule", sheet.path, status=2).split())
    if shutil.which("nsys") is None:
        assert f"{place} Listeners: " in printed
    assert home.runs(74) == []


def test_ncu_examines_the_kernels_that_an_earlier_run_found_frequent(home: Home, programs: Path) -> None:
    rows = [
        "131,1,found,{scripts}/clocked.py,nsys,--seconds 0",
        '131,2,examined,{scripts}/clocked.py,"ncu(from=131/1/1,launch-count=40)",--seconds 0',
    ]
    # Its source is a row above it, so nothing is in the database yet.
    sheet = home.sheet("kernels", HEADER, rows)
    home.bench("schedule", sheet.path)
    _, examined = home.runs(131)
    assert home.artifact(examined["mlflow_run_id"], "ncu.ncu-rep") == b"ncu 0 regex:^(gemm)$\n"
    stored = home.query("select profilers from runs where run_id = %s", examined["run_id"])
    assert stored == [{"profilers": "ncu(from=131/1/1,launch-count=40)"}]
    trace = home.folder / "kernels.json"
    home.bench("export", "131/1", "--trace", "--output", trace)
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "kernel"}
    assert names == {"void gemm<float>(float*)"}

    unknown = home.sheet("unknown", HEADER, ['132,1,x,{scripts}/clocked.py,"ncu(from=131/7/1)",'])
    refused = home.bench("schedule", unknown.path, status=2)
    assert f"{unknown.path}:2:" in refused
    assert "131/7/1 names no run" in refused
    without = home.sheet("without", HEADER, ['132,1,x,{scripts}/clocked.py,"ncu(from=131/2/1)",'])
    refused = " ".join(home.bench("schedule", without.path, "--dry-run", status=2).split())
    assert "131/2/1 has no profile of kernels: profile it by nsys or torch first" in refused
    refused = home.bench("run", "--listeners", f"ncu(from={examined['run_id']})", "--", "true", status=2)
    assert "has no profile of kernels" in refused
