"""A schedule in the background."""

from __future__ import annotations

import sys

import pytest

from tests.support.home import SCRIPTS, Home, open_gate
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,File,Params"
GATE = SCRIPTS / "gate.py"


def test_a_schedule_goes_on_without_its_terminal(home: Home) -> None:
    gates = [home.folder / f"detached-{number}" for number in (1, 2)]
    sheet = home.sheet("detached", HEADER, [f"97,{n},row,{GATE},{gate}" for n, gate in enumerate(gates, 1)])
    said = " ".join(home.bench("schedule", sheet.path, "--detach").split())
    assert "bench watch 97 shows it, bench stop 97 ends it." in said
    again = home.bench("schedule", sheet.path, "--detach", status=2)
    assert "experiment 97 is being scheduled by another command" in " ".join(again.split())

    for gate in gates:
        home.running(97)
        open_gate(gate, 0)
    wait_for(lambda: sheet.column("Status") == ["finished"] * 2, "the end of the schedule")
    log = home.path / "log" / "schedule-97.log"
    wait_for(lambda: "Compare with: bench compare 97" in log.read_text(), "the last line of its output")
    assert "Nothing is left to do" in home.bench("schedule", sheet.path, "--detach")


def test_a_bad_file_is_refused_at_the_terminal(home: Home) -> None:
    sheet = home.sheet("detached-bad", HEADER, ["98,1,row,nowhere.py,"])
    said = home.bench("schedule", sheet.path, "--detach", status=2)
    assert "detached-bad.csv:2:10: File: the script" in " ".join(said.split())
    assert not (home.path / "log" / "schedule-98.log").exists()


def test_an_end_before_the_first_run_is_shown(home: Home) -> None:
    """Here the exporters of a running command cannot be restarted for other GPUs."""
    gate = home.folder / "detached-busy"
    busy = home.start("run", "--", sys.executable, GATE, gate)
    home.running(1_000_000)
    simulating = Home(home.path, home.folder / "simulating", {"BENCH_SIMULATE": "1xH100"})
    simulating.folder.mkdir()
    sheet = simulating.sheet("other-gpus", HEADER, [f"99,1,row,{SCRIPTS}/nothing.py,"])
    said = " ".join(simulating.bench("schedule", sheet.path, "--detach", status=2).split())
    open_gate(gate, 0)
    busy.wait()
    assert "the running exporters and collector were started with no BENCH_SIMULATE" in said
    assert sheet.column("Status") == [""]
