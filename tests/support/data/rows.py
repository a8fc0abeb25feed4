"""Rows of an experiment file next to a ``train.py``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hypergauge.gpu import Inventory
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile
from hypergauge.scheduler.launch.commands import command_of
from hypergauge.scheduler.launch.launch import Command
from hypergauge.scheduler.plan.checks import load

__all__ = ["HEADER", "LISTENERS", "Write", "command", "problems"]

LISTENERS = dict.fromkeys(("host", "process"))
HEADER = "Experiment,Workload,Environment,File,Model,Data,Params\n"
Write = Callable[..., ExperimentFile]


def command(file: ExperimentFile) -> Command:
    """Check a file, and return the command of its only row."""
    load(file.path, Inventory(), LISTENERS)
    [row] = file.rows
    return command_of(file, row)


def problems(file: ExperimentFile) -> str:
    """Return the error of an invalid file."""
    with pytest.raises(BadExperimentFile) as caught:
        load(file.path, Inventory(), LISTENERS)
    return str(caught.value).replace(f"{file.path}:", "")
