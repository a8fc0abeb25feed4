"""Sweeps in radT's YAML, and refusals of radT's own keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory
from hypergauge.scheduler.experiment import sweep
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.experiment.sweep_file import SweepFile
from hypergauge.scheduler.plan import checks

# radT's file after a first start: with its own additions.
WHOLE = """\
name: tuning
experiment: 3
collocation: MPS
devices: 0+1
listeners: smi+top
file: train.py
method: grid
parameters:
  lr:
    values: [0.1, 1e-4]
  shuffle:
    values: [true, false]
  optimizer:
    values: [adam]
parent: 4f1c9a
status:
  0: FINISHED 2f3c5d (--lr 0.1 --shuffle True --optimizer adam)
"""
LEAST = "experiment: 0\nfile: train.py\nparameters:\n  x:\n    values: [1]\n"


def write(folder: Path, content: str, name: str = "sweep.yaml") -> Path:
    (folder / name).write_text(content)
    return folder / name


def test_one_becomes_an_experiment_file_of_the_same_runs(tmp_path: Path) -> None:
    made = tmp_path / "experiments.csv"
    sweep.write(made, sweep.rows(SweepFile.read(write(tmp_path, WHOLE))))
    rows = ExperimentFile.read(made).rows
    assert [(row.experiment, row.workload, row.name) for row in rows] == [(3, n, f"tuning-{n}") for n in range(1, 5)]
    assert {(row.devices, str(row.collocation), row.script, row.status) for row in rows} == {
        (("0", "1"), "MPS", "train.py", "")
    }
    assert all(row.listeners == dict.fromkeys(["nvml", "host", "process"]) for row in rows)
    assert [row.params for row in rows] == [
        ["--lr=0.1", "--shuffle=True", "--optimizer=adam"],
        ["--lr=0.1", "--shuffle=False", "--optimizer=adam"],
        ["--lr=1e-4", "--shuffle=True", "--optimizer=adam"],
        ["--lr=1e-4", "--shuffle=False", "--optimizer=adam"],
    ]


def test_omitted_settings_are_as_in_ours(tmp_path: Path) -> None:
    [row] = sweep.rows(SweepFile.read(write(tmp_path, LEAST + "collocation:\ndevices: ''\nname:\n", "one.yml")))
    assert (row["Name"], row["Devices"], row["Collocation"], row["Params"]) == ("train", "", "-", "--x=1")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a: [1\n", ":2:1: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("- 1\n", ": not a sweep: the file has no keys"),
        (f"{LEAST}listener: top\n", ": listener: radT's sweep files have no such key (did you mean 'listeners'?)"),
        (
            f"{LEAST}method: random\n",
            ": method: radT only shuffles the points of the grid",
        ),
        ("experiment: 0\nfile: a.py\n", ": parameters: must be a list of `NAME: {values: […]}`"),
        ("experiment: 0\nfile: a.py\nparameters: {x: [1]}\n", ": parameters.x: must be `values: […]`, not [1]"),
        ("file: a.py\nparameters: {x: {values: [1]}}\n", ": experiment: id is missing"),
        (LEAST.replace("train.py", ""), ": experiment: there is neither a file nor a model to run"),
        (f"{LEAST}collocation: PPS\n", ": experiment.collocation: unknown collocation 'PPS' (did you mean 'MPS'?)"),
    ],
)
def test_bad_ones(tmp_path: Path, content: str, problem: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(BadRequest) as caught:
        SweepFile.read(path)
    assert str(caught.value).startswith(f"{path}{problem}")


@pytest.mark.parametrize("name", ["sweep.yaml", "sweep.yml", "sweep.toml"])
def test_a_sweep_that_is_scheduled_is_sent_to_the_command_for_it(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, LEAST, name)
    with pytest.raises(BadRequest) as caught:
        checks.load(path, Inventory(), {})
    assert (
        str(caught.value) == f"{path}: this is not a CSV file; `bench sweep` converts a sweep into an experiment file"
    )
