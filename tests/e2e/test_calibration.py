"""``bench calibrate`` on real trainings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import NewFolder
from tests.support.home import SCRIPTS, Home, open_gate

pytestmark = pytest.mark.slow

TRAINING = """
import time
from hypergauge import track
for number in range(300):
    with track.step(number):
        time.sleep(0.01)
"""


@pytest.fixture
def home(new_folder: NewFolder) -> Iterator[Home]:
    folder = new_folder()
    with Home(folder / "home", folder / "work").stack() as home:
        yield home


def test_each_choice_is_repeated_and_its_cost_is_kept(home: Home) -> None:
    (home.folder / "train.py").write_text(TRAINING)
    choices = ("none", "host@500ms", "process")
    said = home.bench(
        "calibrate", "--minutes", "0", "--seed", "7", "--listeners", choices[1], "--listeners", choices[2], "--json", "--",
        sys.executable, "train.py",
    )  # fmt: skip
    found = json.loads(said[said.index("{") :])
    assert [one["listeners"] for one in found["costs"]] == [*choices]
    assert [one["repetitions"] for one in found["costs"]] == [2, 2, 2], "time is up, but an interval needs two"
    assert {one["per"] for one in found["costs"]} == {"step"}
    assert [list(one["exporters"]) for one in found["costs"]] == [[], ["host"], ["process"]]
    assert found["costs"][0]["slowdown"] is None
    for one in found["costs"][1:]:
        assert -1 < one["slowdown"]["low"] <= one["slowdown"]["value"] <= one["slowdown"]["high"]
    assert all(one["memory_bytes"] > 1e6 for one in found["costs"])
    assert found["costs"][2]["cpu_share"] > 0

    kept = home.query("select listeners, exporters, repetitions, slowdown from calibrations order by listeners")
    assert [(one["listeners"], list(one["exporters"]), one["repetitions"]) for one in kept] == [
        ("host@500ms", ["host"], 2), ("process", ["process"], 2),
    ]  # fmt: skip
    assert kept[0]["slowdown"] == pytest.approx(found["costs"][1]["slowdown"]["value"])
    runs = home.runs(1_000_000)
    assert [(run["position"], run["attempt"]) for run in runs] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
        (3, 1),
        (3, 2),
        (4, 1),
    ]
    compared = " ".join(home.bench("compare", found["workload"], "--by", "row").split())
    assert "measuring makes a training" not in compared, "two repetitions say too little"


def test_a_training_that_fails_is_named(home: Home) -> None:
    said = home.bench("calibrate", "--listeners", "host", "--", sys.executable, "-c", "raise SystemExit(3)", status=1)
    assert "the run warm-up ended as failed: bench logs " in " ".join(said.split())
    assert home.query("select from calibrations") == []


def test_other_runs_of_the_host_are_refused(home: Home) -> None:
    gate = home.folder / "gate"
    other = home.start("run", "--", sys.executable, SCRIPTS / "gate.py", gate)
    home.running(1_000_000)
    said = home.bench("calibrate", "--listeners", "host", "--", "true", status=2)
    assert "1000000/1/1 runs on this host: what measures them would measure the calibration too" in " ".join(
        said.split()
    )
    open_gate(gate, 0)
    other.wait()
    assert home.query("select from calibrations") == []


def test_after_ctrl_c_nothing_is_stored(home: Home) -> None:
    gate = home.folder / "never"
    going = home.start("calibrate", "--listeners", "host", "--", sys.executable, SCRIPTS / "gate.py", gate)
    [warm_up] = home.running(1_000_000)
    going.interrupt()
    said = going.wait(status=1)
    assert "stopped after 0 runs that count: nothing is stored" in " ".join(said.split())
    assert [(run["run_id"], run["status"]) for run in home.runs(1_000_000)] == [(warm_up["run_id"], "stopped")]


def test_profilers_are_refused(home: Home) -> None:
    said = home.bench("calibrate", "--listeners", "host+perfs", "--", "true", status=2)
    assert "there is no exporter 'perfs'" in " ".join(said.split())
    assert home.query("select from runs") == []
