"""Edited files: no run is ever attributed to another row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.home import Home, Sheet, Started
from tests.support.waiting import HUNG_SECONDS, wait_for

HEADER = "Experiment,Workload,Name,Status,Run,File,Params"


def row(experiment: int, name: str, seconds: float = 0, run: str = "") -> str:
    """Return a row that is to be run, for some seconds."""
    return f"{experiment},1,{name},,{run},{{scripts}}/clocked.py,--seconds {seconds}"


@pytest.fixture(scope="module")
def started(home: Home) -> Iterator[dict[int, tuple[Sheet, Started]]]:
    """The files of both tests, which are being scheduled; all of their runs end with the tests."""
    waiting = f"42,2,waiting,,,{{scripts}}/gate.py,{home.folder}/gate-42"
    sheets = {
        41: home.sheet("owner", HEADER, [row(41, "first")]),
        42: home.sheet("edited", HEADER, [row(42, "a", 0.01), row(42, "b", 0.02), waiting]),
    }
    schedules = {experiment: (sheet, home.start("schedule", sheet.path)) for experiment, sheet in sheets.items()}
    yield schedules
    (home.folder / "gate-42").touch()  # also for the first test alone
    for _, schedule in schedules.values():
        schedule.process.wait(HUNG_SECONDS)


def test_an_experiment_belongs_to_its_file(home: Home, started: dict[int, tuple[Sheet, Started]]) -> None:
    first, schedule = started[41]
    other = home.sheet("other", HEADER, [row(41, "other", 0.01)])
    schedule.wait()
    before = other.path.read_bytes()
    refused = home.bench("schedule", other.path, status=2)
    free = home.query("select max(experiment_id) + 1 as id from experiments where experiment_id < 1000000")[0]["id"]
    assert f"{other.path}:2: " in refused
    assert str(first.path) in refused
    assert f" {free}" in refused
    assert other.path.read_bytes() == before
    assert len(home.runs(41)) == 1
    printed = home.bench("schedule", other.path, "--into")
    assert "41/2" in printed
    assert [(run["workload"], run["position"], run["attempt"], run["name"]) for run in home.runs(41)] == [
        (1, 1, 1, "first"), (2, 1, 1, "other"),
    ]  # fmt: skip


def test_rows_keep_their_runs_when_a_half_finished_file_is_edited(
    home: Home, started: dict[int, tuple[Sheet, Started]]
) -> None:
    sheet, schedule = started[42]
    home.running(42)
    schedule.kill()
    ids = {run["name"]: run["run_id"] for run in home.runs(42)}
    assert sheet.column("Status") == ["finished", "finished", "running"]

    edited = [
        row(42, "changed", 0.03, run=ids["a"]),  # `a`, with another parameter, to be run
        row(42, "inserted", 0.04),
        row(42, "b", 0.02, run=ids["b"]),  # as it was, to be run again
        row(42, "copied", 0.05, run=ids["b"]),  # `b` with another parameter, copied with all its cells
        ",".join(sheet.rows[-1].values()),
    ]
    home.sheet("edited", HEADER, edited)
    again = home.start("schedule", sheet.path)
    wait_for(lambda: sheet.column("Status") == [*["finished"] * 4, "running"], "the first workload")
    (home.folder / "gate-42").touch()
    again.wait()

    runs = {run["run_id"]: run for run in home.runs(42)}
    found = {one["Name"]: runs[one["Run"]] for one in sheet.rows}
    assert {name: (run["position"], run["attempt"], run["name"]) for name, run in found.items()} == {
        "changed": (3, 1, "changed"),
        "inserted": (4, 1, "inserted"),
        "b": (2, 2, "b"),
        "copied": (5, 1, "copied"),
        "waiting": (1, 1, "waiting"),
    }
    assert found["waiting"]["run_id"] == ids["waiting"]
    for one in sheet.rows:
        assert found[one["Name"]]["command"].endswith(f"{one['File']} {one['Params']}")
        assert (one["Status"], found[one["Name"]]["exit_code"]) == ("finished", 0)
    # The runs of the past are what they were.
    assert {name: (runs[ids[name]]["position"], runs[ids[name]]["attempt"]) for name in ("a", "b")} == {
        "a": (1, 1), "b": (2, 1),
    }  # fmt: skip
    [first, latest] = [home.json("list", selector)[0]["run_id"] for selector in ("42/1/2@1", "42/1/2")]
    assert (first, latest) == (ids["b"], found["b"]["run_id"])
