"""The header of an experiment file: known columns, near misses, and the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.executors.batch.checks import refuse_rows
from hypergauge.scheduler.executors.slurm import SlurmExecutor
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile

RADT = "Experiment,Workload,Name,Status,Run,Devices,Collocation,Listeners,File,Params"
PAPER = "Experiment,Workload,Status,Run,Devices,Collocation,Environment,Model,Data,Listeners,Params"


def read(folder: Path, header: str) -> ExperimentFile:
    path = folder / "experiments.csv"
    cells = ["1" if name in ("Experiment", "Workload") else "train.py" if name == "File" else "" for name in
             header.split(",")]  # fmt: skip
    path.write_text(f"{header}\n{','.join(cells)}\n")
    return ExperimentFile.read(path)


@pytest.mark.parametrize(
    ("column", "known"),
    [
        ("Device", "Devices"),
        ("device", "Devices"),
        ("Devces", "Devices"),
        ("Deviecs", "Devices"),
        ("Parameters", "Params"),
        ("parameter", "Params"),
        ("Param", "Params"),
        ("Prams", "Params"),
        ("Colocation", "Collocation"),
        ("Co-location", "Collocation"),
        ("Collocations", "Collocation"),
        ("Enviroment", "Environment"),
        ("Environments", "Environment"),
        ("Environement", "Environment"),
        ("Listener", "Listeners"),
        ("Listner", "Listeners"),
        ("Action", "Actions"),
        ("Slrum", "Slurm"),
    ],
)
def test_a_near_miss_is_refused(tmp_path: Path, column: str, known: str) -> None:
    with pytest.raises(BadExperimentFile) as caught:
        read(tmp_path, f"Experiment,Workload,File,{column}")
    assert str(caught.value) == (
        f"{tmp_path / 'experiments.csv'}:1:26: there is no column {column!r} (did you mean {known!r}?)"
    )


@pytest.mark.parametrize(
    "column",
    [
        # users' own notes
        *("Notes", "Note", "Date", "Model size", "Mode", "Runs", "Run time", "Names", "State", "Stats", "Dataset", "Data path"),
        *("GPU", "GPU type", "Service", "Location", "Allocation", "Collection", "Parts", "Section", "Option", "Caption"),
        *("Profile", "Files", "Models", "Seed", "Author", "Comment", "Remarks", "Accuracy", "Batch size", "Workflow", "Host"),
        *("Device type", "Device count", "Environment variables", "Parameter count", "Workload type", "Experimenter"),
    ],
)  # fmt: skip
def test_a_column_of_the_users_own_is_kept(tmp_path: Path, column: str) -> None:
    file = read(tmp_path, f"Experiment,Workload,File,{column},Status,Params")
    assert file.unknown_columns == (column,)


@pytest.mark.parametrize("header", [RADT, PAPER.replace("Model", "File"), f"{RADT},Slurm,Actions", f"{RADT},,"])
def test_columns_that_are_known_are_no_notice(tmp_path: Path, header: str) -> None:
    assert read(tmp_path, header).unknown_columns == ()
    assert read(tmp_path, header.replace("Params", "params").replace("Slurm", "SLURM")).unknown_columns == ()


def test_two_columns_that_mean_the_same_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadExperimentFile) as caught:
        read(tmp_path, "Experiment,Workload,File,Devices,Params,Device,Parameters,params")
    where = tmp_path / "experiments.csv"
    assert str(caught.value).splitlines() == [
        f"{where}:1:41: 'Device' is too similar to the column 'Devices', which also exists: remove or rename it",
        f"{where}:1:48: 'Parameters' is too similar to the column 'Params', which also exists: remove or rename it",
        f"{where}:1:59: there is a column 'params' already",
    ]


def test_a_required_column_that_is_nearly_there_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(BadExperimentFile) as caught:
        read(tmp_path, "Experiment,Workloads,File")
    [problem] = caught.value.problems
    assert problem.message == (
        "the column 'Workload' is missing; the header has Experiment, Workloads, File (rename 'Workloads'?)"
    )


def test_a_bad_cell_is_named_in_whatever_case_its_column_is_written(tmp_path: Path) -> None:
    path = tmp_path / "experiments.csv"
    path.write_text("Experiment,Workload,File,slurm\n1,1,train.py,'open\n")
    with pytest.raises(BadRequest, match=r"experiments.csv:2:14: Slurm: "):
        refuse_rows(SlurmExecutor({}, None), ExperimentFile.read(path))
