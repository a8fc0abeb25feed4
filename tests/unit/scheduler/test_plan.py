"""Attribution of rows to runs: no run is ever attributed to another row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.scheduler.experiment.experiment_file import ExperimentFile, Row, fingerprint
from hypergauge.scheduler.plan import plan as plan_module
from hypergauge.scheduler.plan.plan import plan
from hypergauge.sql.runs.runs import KnownRun

HEADER = "Experiment,Workload,Status,Run,File,Params\n"
IDS = {name: name * 32 for name in "abcdef"}


def parse(folder: Path, *rows: str) -> ExperimentFile:
    path = folder / "experiments.csv"
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows))
    return ExperimentFile.read(path)


def known(folder: Path, *runs: tuple[str, str, int, int, str]) -> list[KnownRun]:
    """Return past runs of workload 1 from (id letter, params, position, attempt, status)."""
    made = []
    for letter, params, position, attempt, status in runs:
        [row] = parse(folder, f"1,1,,,t.py,{params}").rows
        made.append(KnownRun(IDS[letter], None, 1, position, attempt, fingerprint(row), status))
    return made


def placed(file: ExperimentFile, runs: list[KnownRun], rerun: str | None = None) -> list[tuple[int, int, str]]:
    return [
        (run.position, run.attempt, str(run.action))
        for one in plan(file.rows, {1: runs}, rerun=rerun)
        for run in one.runs
    ]


A, B = IDS["a"], IDS["b"]


@pytest.mark.parametrize(
    ("rows", "past", "expected"),
    [
        pytest.param(["1,1,,,t.py,--a 1", "1,1,,,t.py,--a 2"], [], [(1, 1, "run"), (2, 1, "run")], id="a new file"),
        pytest.param(
            [f"1,1,finished,{A},t.py,--a 1", "1,1,,,t.py,--a 3", f"1,1,finished,{B},t.py,--a 2"],
            [("a", "--a 1", 1, 1, "finished"), ("b", "--a 2", 2, 1, "finished")],
            [(1, 1, "skip"), (3, 1, "run"), (2, 1, "skip")],
            id="a row inserted in the middle",
        ),
        pytest.param(
            [f"1,1,,{A},t.py,--a 1"], [("a", "--a 1", 1, 1, "finished")], [(1, 2, "run")], id="the same row again"
        ),
        pytest.param(
            [f"1,1,,{A},t.py,--a 9"], [("a", "--a 1", 1, 1, "finished")], [(2, 1, "run")], id="a changed parameter"
        ),
        pytest.param(
            ["1,1,,,t.py,--a 1"], [("a", "--a 1", 1, 1, "finished")], [(1, 2, "run")], id="a fresh file of the same rows"
        ),
        pytest.param(
            [f"1,1,finished,{A},t.py,--a 1", "1,1,,,t.py,--a 1"],
            [("a", "--a 1", 1, 1, "finished")],
            [(1, 1, "skip"), (2, 1, "run")],
            id="an equal row added",
        ),
        pytest.param(
            [f"1,1,finished,{A},t.py,--a 1", f"1,1,,{A},t.py,--a 1"],
            [("a", "--a 1", 1, 1, "finished")],
            [(1, 1, "skip"), (2, 1, "run")],
            id="a row copied together with its id",
        ),
        pytest.param(
            ["1,1,,,t.py,--a 2", "1,1,,,t.py,--a 1"],
            [("a", "--a 1", 1, 1, "finished"), ("b", "--a 2", 2, 1, "finished")],
            [(2, 2, "run"), (1, 2, "run")],
            id="rows in another order",
        ),
        pytest.param(
            [f"1,1,running,{A},t.py,--a 1"], [("a", "--a 1", 1, 1, "running")], [(1, 2, "resume")], id="its status is running"
        ),
        pytest.param(
            ["1,1,,,t.py,--a 1"], [("a", "--a 1", 1, 1, "pending")], [(1, 2, "resume")], id="killed before the file was written"
        ),
        pytest.param(
            [f"1,1,running,{'9' * 32},t.py,--a 1"], [], [(1, 1, "run")], id="running according to a file from elsewhere"
        ),
    ],
)  # fmt: skip
def test_positions_and_attempts(
    tmp_path: Path, rows: list[str], past: list[tuple[str, str, int, int, str]], expected: list[tuple[int, int, str]]
) -> None:
    assert placed(parse(tmp_path, *rows), known(tmp_path, *past)) == expected


@pytest.mark.parametrize(
    ("rerun", "expected"),
    [
        (None, ["skip", "skip", "skip", "run"]),
        ("failed", ["skip", "run", "run", "run"]),
        ("all", ["run", "run", "run", "run"]),
    ],
)
def test_what_is_run_again(tmp_path: Path, rerun: str | None, expected: list[str]) -> None:
    past = known(
        tmp_path, ("a", "--a 1", 1, 1, "finished"), ("b", "--a 2", 2, 1, "failed"), ("c", "--a 3", 3, 1, "stopped")
    )
    file = parse(
        tmp_path,
        f"1,1,finished,{IDS['a']},t.py,--a 1",
        f"1,1,failed,{IDS['b']},t.py,--a 2",
        f"1,1,stopped,{IDS['c']},t.py,--a 3",
        "1,1,,,t.py,--a 4",
    )
    assert [action for _, _, action in placed(file, past, rerun)] == expected


def test_workloads_keep_the_order_in_which_they_first_appear(tmp_path: Path) -> None:
    file = parse(tmp_path, "1,7,,,t.py,", "1,2,,,t.py,", "1,7,,,t.py,--a 1", "2,2,,,t.py,")
    assert [(one.experiment, one.workload, len(one.runs)) for one in plan(file.rows, {})] == [
        (1, 7, 2),
        (1, 2, 1),
        (2, 2, 1),
    ]


class CountedRuns(list[KnownRun]):
    """List that counts how often it is read."""

    reads = 0

    def __iter__(self) -> Iterator[KnownRun]:
        self.reads += 1
        return super().__iter__()


def test_a_large_file_is_planned_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, calls = 200, 0
    file = parse(tmp_path, *(f"1,{1 + number % 20},,,t.py,--a {number}" for number in range(count)))
    past = CountedRuns(
        KnownRun(f"{number:032x}", None, row.workload, 1 + number // 20, 1, fingerprint(row), "finished")
        for number, row in enumerate(file.rows)
    )

    def counted(row: Row) -> str:
        nonlocal calls
        calls += 1
        return fingerprint(row)

    monkeypatch.setattr(plan_module, "fingerprint", counted)
    planned = plan(file.rows[::-1], {1: past})
    assert {(run.attempt, run.previous is None) for one in planned for run in one.runs} == {(2, False)}
    assert calls <= 2 * count
    assert past.reads == 1
