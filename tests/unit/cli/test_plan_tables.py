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
