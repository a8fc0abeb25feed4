"""Profiles of real runs: their entries, the cause of a difference, live runs, and broken reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypergauge.core.files.host_lock import HostLock
from tests.support.home import Home
from tests.support.interpreters import needs, python_with
from tests.support.reports import TRACE
from tests.support.waiting import wait_for

TORCH_PYTHON = python_with("torch") or ""

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,File,Listeners,Params"
# A step of work; where `times` is not 0, the data are also prepared, which takes `times` as long as a step.
TRAIN = """
import sys
from hypergauge import track

def prepare(times):
    for _ in range(times):
        learn()

def learn():
    return sum(number * number for number in range(30_000))

with track.phase("train"):
    for number in range(int(sys.argv[1])):
        with track.step(number):
            learn()
            if int(sys.argv[2]):
                data = prepare(int(sys.argv[2]))
"""
TORCH = """
import sys, torch
from hypergauge import track

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters())

def slow_augmentation(data, rounds):
    for _ in range(rounds):
        sum(number * number for number in range(1000))
    return data

for number in range(400):
    with track.step(number):
        data = slow_augmentation(torch.randn(16, 64), int(sys.argv[1]))
        optimizer.zero_grad()
        model(data).sum().backward()
        optimizer.step()
"""
# It writes the first half of a trace, as a profiler does that is killed.
CUT = """
import os, pathlib
folder = pathlib.Path(os.environ["BENCH_SPANS"]).parent
(folder / "torch_trace.json.gz").write_bytes(pathlib.Path(TRACE).read_bytes()[:9000])
"""


def script(home: Home, name: str, text: str) -> Path:
    path = home.folder / name
    path.write_text(text)
    return path


def test_the_cause_of_a_slow_run_is_named(home: Home) -> None:
    train = script(home, "profiled_train.py", TRAIN)
    sheet = home.sheet("profiled", HEADER, [f"101,1,fast,{train},py-spy,300 0", f"101,2,slow,{train},py-spy,150 20"])
    home.bench("schedule", sheet.path)
    fast, slow = home.runs(101)
    [found] = home.json("profile", "101/2/1")
    assert (found["profiler"], found["number"], found["rate"], found["problem"]) == ("py-spy", 1, 50, None)
    by_name = {one["name"].partition(" (")[0]: one for one in found["entries"]}
    assert by_name["prepare"]["total"] > by_name["prepare"]["self"]
    assert sum(one["share"] for one in found["entries"]) == pytest.approx(1)
    [compared] = home.json("profile", "101/2/1", "--against", "101/1/1")
    [kind] = compared["kinds"]
    assert compared["per"] == "step"
    name, share = kind["cause"]
    assert name.startswith("prepare (profiled_train.py:")
    assert share >= 0.9
    assert "accounts for" in home.bench("profile", "101/2/1", "--against", "101/1/1")
    rows = home.query("select sum(self) as busy from profile_entries where run_id = %s", slow["run_id"])
    assert 0 < rows[0]["busy"] <= 1.5 * slow["duration"]
    stacks = home.query("select frames, self from profile_stacks where run_id = %s order by self desc", slow["run_id"])
    assert any("prepare" in frame for frame in stacks[0]["frames"])
    assert b"learn" in home.artifact(fast["mlflow_run_id"], "py-spy.txt")


@pytest.mark.quiet  # other load would slow one of the two trainings down, in all of its functions
@needs("torch")
def test_a_slow_function_of_a_torch_training_is_named(home: Home) -> None:
    train = script(home, "torch_train.py", TORCH)
    # Many rounds, since an import may take a second more in one of the two.
    for name, rounds in (("healthy", "0"), ("faulty", "2000")):
        home.bench("run", "--name", name, "--listeners", "py-spy", "--", TORCH_PYTHON, train, rounds)
    runs = {
        one["name"]: one["run_id"]
        for one in home.query("select name, run_id from runs where name in ('healthy', 'faulty')")
    }
    [compared] = home.json("profile", runs["faulty"], "--against", runs["healthy"])
    [kind] = compared["kinds"]
    name, share = kind["cause"]
    assert name.startswith("slow_augmentation (torch_train.py:")
    assert share >= 0.9


def test_a_live_run_is_profiled_without_a_restart(home: Home, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    busy = script(
        home,
        "busy.py",
        "import pathlib, sys\ndef spin():\n    while not pathlib.Path(sys.argv[1]).exists():\n        sum(range(9999))\nspin()\n",
    )
    sheet = home.sheet("live", HEADER, [f"102,1,live,{busy},,{gate}"])
    schedule = home.start("schedule", sheet.path)
    run_id = wait_for(
        lambda: next((one["run_id"] for one in home.runs(102) if one["status"] == "running"), None), "the run"
    )
    wait_for(
        lambda: home.query("select 1 from placements where run_id = %s and root_pid is not null", run_id), "its process"
    )
    for number in (2, 3):
        [found] = home.json("profile", "102/1/1", "--seconds", "1", "--rate", "50")
        assert (found["number"], found["rate"]) == (number, 50)
        assert "spin (busy.py:2)" in {one["name"] for one in found["entries"]}
    with HostLock(f"profile/{run_id}") as other:
        assert other.take()
        assert "is being profiled already" in home.bench("profile", "102/1/1", "--seconds", "1", status=2)
    gate.touch()
    schedule.wait()
    [run] = home.runs(102)
    assert b"spin" in home.artifact(run["mlflow_run_id"], "py-spy-2.txt")
    printed = home.bench("profile", "102/1/1", "--seconds", "1", status=2)
    assert "102/1/1 is finished: --seconds needs a run that runs" in printed


def test_a_run_without_python_cannot_be_profiled_live(home: Home, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = home.start("run", "--name", "shell", "--", "sh", "-c", f"until test -e {gate}; do sleep 0.2; done")
    [run] = wait_for(
        lambda: home.query("select run_id from runs where name = 'shell' and status = 'running'"), "the run"
    )
    assert "no Python process" in home.bench("profile", run["run_id"], "--seconds", "1", status=2)
    gate.touch()
    command.wait()


def test_a_broken_report_is_a_note_and_loses_nothing(home: Home) -> None:
    cut = script(home, "cut.py", CUT.replace("TRACE", repr(str(TRACE))))
    sheet = home.sheet("cut", HEADER, [f"103,1,cut,{cut},,"])
    printed = " ".join(home.bench("schedule", sheet.path).split())
    assert "torch_trace.json.gz" in printed
    assert "its compressed data ends early" in printed
    [run] = home.runs(103)
    assert run["status"] == "finished"
    assert len(home.artifact(run["mlflow_run_id"], "torch_trace.json.gz")) == 9000
    [found] = home.json("profile", "103/1/1")
    assert (found["problem"], found["entries"]) == ("its compressed data ends early", [])
    assert "ends early" in home.bench("profile", "103/1/1")


def test_requests_that_cannot_be_answered(home: Home) -> None:
    train = script(home, "short.py", TRAIN)
    sheet = home.sheet("asked", HEADER, [f"104,1,with,{train},py-spy,60 2", f"104,2,without,{train},,1 0"])
    home.bench("schedule", sheet.path)
    assert "did you mean 'function'" in home.bench("profile", "104/1/1", "--kind", "funktion", status=2)
    assert "one of: py-spy" in home.bench("profile", "104/1/1", "--profiler", "nsys", status=2)
    assert "no entry of 104/1/1 is in the phase 'train'" in home.bench(
        "profile", "104/1/1", "--phase", "train", status=2
    )
    assert "104/2/1 has no profile" in home.bench("profile", "104/2/1", status=1)
    assert "104/2/1 has no profile" in home.bench("profile", "104/1/1", "--against", "104/2/1", status=1)
    assert json.loads(home.bench("profile", "104/1/1", "--json"))[0]["run"] == "104/1/1"
