"""Repeated workloads."""

from __future__ import annotations

import pytest

from tests.support.home import Home, processes_of
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,File,Params"
CLOCKED = "{scripts}/clocked.py,--seconds 0"


def test_workloads_alternate_and_each_repetition_is_an_attempt(home: Home) -> None:
    sheet = home.sheet(
        "alternating", HEADER, [f"80,1,first,{CLOCKED}", f"80,2,second,{CLOCKED}", f"80,2,third,{CLOCKED}"]
    )
    planned = home.bench("schedule", sheet.path, "--repeat", "2", "--dry-run")
    assert planned.count("1-2") == 3
    assert "The workloads run in turn, 2 times each." in planned
    printed = home.bench("schedule", sheet.path, "--repeat", "2")
    runs = home.runs(80)
    order = [(run["workload"], run["attempt"]) for run in sorted(runs, key=lambda run: run["started"])]
    assert order == [(1, 1), (2, 1), (2, 1), (1, 2), (2, 2), (2, 2)]
    starts = {(run["workload"], run["attempt"]): run["started"] for run in runs}
    assert all(starts[run["workload"], run["attempt"]] == run["started"] for run in runs)
    assert "80/1/1@2 first started" in printed
    assert "bench compare 80 --by row" in printed
    assert sheet.column("Status") == ["finished"] * 3
    assert sheet.column("Run") == [run["run_id"] for run in runs if run["attempt"] == 2]
    first, again = (home.mlflow_run(run["mlflow_run_id"])["tags"] for run in runs[:2])
    assert (first["hypergauge.run"], first["hypergauge.cache"]) == ("80/1/1@1", "cold")
    assert (again["hypergauge.run"], again["hypergauge.cache"]) == ("80/1/1@2", "warm")

    assert [run["attempt"] for run in home.json("list", "80")] == [2, 2, 2]
    assert [run["attempt"] for run in home.json("list", "80", "--attempts", "all")] == [1, 2, 1, 2, 1, 2]
    labels = [run["run"] for run in home.json("compare", "80/2", "--attempts", "all")["runs"]]
    assert labels == ["80/2/1@1", "80/2/1@2", "80/2/2@1", "80/2/2@2"]
    [row] = home.json("compare", "80/1", "--by", "row")["rows"]
    took = [run["duration"] for run in runs if run["workload"] == 1]
    assert (row["attempts"], row["duration_seconds"]) == ([1, 2], pytest.approx(sum(took) / 2))
    assert row["deviations"]["duration_seconds"] == pytest.approx(abs(took[0] - took[1]) / 2**0.5)
    assert " ± " in home.bench("compare", "80/1", "--by", "row")

    assert "Nothing is left to do" in home.bench("schedule", sheet.path, "--repeat", "2")


def test_columns_of_the_users_own_are_named_once(home: Home) -> None:
    rows = [f"84,1,first,{CLOCKED},warm,today", f"84,1,second,{CLOCKED},cold,today"]
    sheet = home.sheet("columns", f"{HEADER},Notes,Date", rows)
    notice = "Unknown columns, kept unchanged: Notes, Date\n"
    for words in (["--dry-run"], []):
        printed = home.bench("schedule", sheet.path, *words)
        assert printed.count(notice) == printed.count("Date") == 1
    assert (sheet.column("Notes"), sheet.column("Date")) == (["warm", "cold"], ["today", "today"])


def test_an_interrupt_in_the_second_repetition_ends_them_all(home: Home) -> None:
    folder = home.folder / "repeated"
    folder.mkdir()
    # It ends at once in the first repetition, and waits in the second.
    rows = [f"81,1,waits,{{scripts}}/attempts.py,{folder}/a 0 wait", f"81,2,other,{CLOCKED}"]
    sheet = home.sheet("repeated", HEADER, rows)
    schedule = home.start("schedule", sheet.path, "--repeat", "3")
    [run] = home.running(81)
    assert run["attempt"] == 2
    schedule.interrupt()
    schedule.wait(status=1)
    assert not processes_of(run["run_id"])
    assert [(run["workload"], run["attempt"], run["status"]) for run in home.runs(81)] == [
        (1, 1, "finished"), (1, 2, "stopped"), (2, 1, "finished"),
    ]  # fmt: skip
    assert sheet.column("Status") == ["stopped", "finished"]


def test_a_failed_repetition_keeps_no_other_from_running_and_a_stopped_row_is_not_started_again(home: Home) -> None:
    folder = home.folder / "uneven"
    folder.mkdir()
    rows = [
        f"82,1,uneven,{{scripts}}/attempts.py,{folder}/a 3 0 0",
        f"82,1,stopped,{{scripts}}/attempts.py,{folder}/b wait",
    ]
    sheet = home.sheet("uneven", HEADER, rows)
    schedule = home.start("schedule", sheet.path, "--repeat", "3")
    home.running(82)
    wait_for(lambda: home.runs(82)[0]["status"] == "failed", "the failure")
    home.bench("stop", "82/1/2")
    schedule.wait(status=1)
    assert [(run["position"], run["attempt"], run["status"]) for run in home.runs(82)] == [
        (1, 1, "failed"), (1, 2, "finished"), (1, 3, "finished"), (2, 1, "stopped"),
    ]  # fmt: skip
    assert sheet.column("Status") == ["finished", "stopped"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["compare", "80", "--by", "attempt"], "--by is 'run', 'row' or 'workload', not 'attempt'"),
        (["compare", "80", "--attempts", "first"], "--attempts is 'latest' or 'all', not 'first'"),
        (["compare", "80", "--by", "workload", "--attempts", "all"], "--attempts all goes with --by run or --by row"),
        (["list", "80", "--attempts", "1"], "--attempts is 'latest' or 'all', not '1'"),
    ],
)
def test_bad_requests_are_refused(home: Home, words: list[str], expected: str) -> None:
    assert expected in " ".join(home.bench(*words, status=2).split())
