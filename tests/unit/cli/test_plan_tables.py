"""Attempts of rows in the table of ``bench schedule --dry-run``."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.cli.running.plan_tables import show_plan
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile, fingerprint
from hypergauge.scheduler.plan.plan import plan
from hypergauge.sql.runs.runs import KnownRun

RUN = "a" * 32


@pytest.mark.parametrize(
    ("status", "rerun", "repeat", "shown"),
    [
        pytest.param("running", None, 1, ["2", "resume"], id="attaches to the last attempt"),
        pytest.param("running", None, 3, ["2-4", "resume"], id="repetitions follow it"),
        pytest.param("finished", None, 1, ["2", "is done"], id="is done"),
        pytest.param("failed", "failed", 1, ["3", "run"], id="runs again"),
    ],
)
def test_the_attempt_of_a_row(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    status: str,
    rerun: str | None,
    repeat: int,
    shown: list[str],
) -> None:
    path = tmp_path / "experiments.csv"
    path.write_text(f"Experiment,Workload,Name,Status,Run,File\n1,1,a,{status},{RUN},t.py\n")
    [row] = ExperimentFile.read(path).rows
    runs = [KnownRun(run, None, 1, 1, attempt, fingerprint(row), status) for run, attempt in (("b" * 32, 1), (RUN, 2))]
    show_plan(plan([row], {1: runs}, rerun=rerun), repeat, None)
    [line] = [line for line in capsys.readouterr().out.splitlines() if "1/1/1" in line]
    label, attempt, _, *action = line.split()
    assert (label, attempt) == ("1/1/1", shown[0])
    assert " ".join(action).startswith(shown[1])


def test_a_long_plan_shows_its_first_rows_and_the_number_of_each_action(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "experiments.csv"
    rows = [f"1,{number},{'finished' if number % 2 else ''},t.py" for number in range(1, 1202)]
    path.write_text("\n".join(["Experiment,Workload,Status,File", *rows, ""]))
    show_plan(plan(ExperimentFile.read(path).rows, {}), 1, None)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "t.py" in line]) == 1000
    assert "1,000 of 1,201 rows" in lines[-1]
    assert "is done: 601" in lines[-1]
    assert "run: 600" in lines[-1]
