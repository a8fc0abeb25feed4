"""Job: everything needed to start one run, from a row of a file or from ``bench run``."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypergauge.gpu import Gpu, Inventory
from hypergauge.scheduler.experiment import parameters
from hypergauge.scheduler.experiment.cells import Collocation
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile, Row, fingerprint
from hypergauge.scheduler.experiment.parameters import HIDDEN
from hypergauge.scheduler.launch.commands import command_of
from hypergauge.scheduler.launch.launch import Command
from hypergauge.sql.runs.runs import KnownRun

__all__ = ["Job", "job_from_command", "job_from_row"]


@dataclass(frozen=True, slots=True)
class Job:
    """One run to be, with its place in the experiment.

    `devices` is ``None`` where the run sees the GPUs that the shell sees, and empty where they are hidden from it;
    `line` is that of its row in the experiment file; `previous` the run that the plan found at its position: the one to
    attach to, or that this one is the next attempt of; `profilers` wrap it; `actions` are what is to be done when rules
    fire, by rule; `asked` is what it takes to ask for the same
    again, in the words of the file or the command line, without secrets. `row` is its row in the file; `run_id` the id that
    its run has already, where it was queued.
    """

    name: str
    command: Command
    params: dict[str, str]
    shown_command: str
    environment: str
    collocation: Collocation
    devices: tuple[Gpu, ...] | None
    fingerprint: str
    position: int
    attempt: int
    line: int | None = None
    profilers: tuple[str, ...] = ()
    actions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    previous: KnownRun | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    row: Row | None = field(default=None, compare=False, repr=False)
    run_id: str | None = None

    def again(self) -> Job:
        """Return the same job as its next attempt."""
        return replace(self, attempt=self.attempt + 1, previous=None, run_id=None)


def job_from_row(
    file: ExperimentFile,
    row: Row,
    inventory: Inventory | None,
    *,
    position: int,
    attempt: int,
    previous: KnownRun | None,
) -> Job:
    """Return the job that a row asks for; the file has been checked. Without an inventory its devices are yet unknown."""
    command = command_of(file, row)
    given = {"model": row.model, "data": row.data} if row.model else {}
    return Job(
        name=row.name,
        command=command,
        params={name: value for name, value in given.items() if value} | parameters.named(row.params),
        shown_command=command.shown,
        environment=str(row.environment),
        collocation=row.collocation,
        devices=tuple(inventory.find(word) for word in row.devices) if inventory else (),
        fingerprint=fingerprint(row),
        position=position,
        attempt=attempt,
        line=row.line,
        profilers=row.wrappers,
        actions={rule: [action for name, action in row.actions if name == rule] for rule, _ in row.actions},
        previous=previous,
        asked={"directory": str(Path.cwd()), "file": str(file.path.absolute()), "cells": _asked(row)},
        row=row,
    )


def job_from_command(
    words: Sequence[str],
    *,
    name: str | None,
    devices: tuple[Gpu, ...] | None,
    collocation: Collocation | None = None,
) -> Job:
    """Return the job of a command as typed."""
    collocation = collocation or Collocation()
    uuids = None if devices is None else [gpu.uuid for gpu in devices]
    return Job(
        name=name or _name_of(words),
        command=Command(
            tuple(words),
            Path.cwd(),
            {},
            python=_python_of(words),
            folders=_folders_of(words),
            shown=parameters.shown(words),
        ),
        params=parameters.named(words[1:]),
        shown_command=parameters.shown(words),
        environment="-",
        collocation=collocation,
        devices=devices,
        fingerprint=hashlib.sha256(json.dumps([list(words), uuids, str(collocation)]).encode()).hexdigest(),
        position=1,
        attempt=1,
        asked={"directory": str(Path.cwd()), "words": shlex.split(parameters.shown(words))},
    )


def _asked(row: Row) -> dict[str, str]:
    """Return a row's cells by column; without columns that look secret, and what looks so in its parameters hidden."""
    without = {"Status", "Run", *filter(parameters.looks_secret, row.cells)}
    cells = {column: cell.text for column, cell in row.cells.items() if column not in without}
    if (shown := parameters.shown(row.params)) and HIDDEN in shown:
        cells["Params"] = shown
    return cells


def _python_of(words: Sequence[str]) -> str | None:
    """Return the interpreter that a command begins with, ``None`` where it begins with something else."""
    return shutil.which(words[0]) if re.fullmatch(r"python[0-9.]*", Path(words[0]).name) else None


def _folders_of(words: Sequence[str]) -> tuple[Path, ...]:
    """Return the folder of the script in a command."""
    return tuple(Path(word).resolve().parent for word in words[1:] if word.endswith(".py") and Path(word).is_file())[:1]


def _name_of(words: Sequence[str]) -> str:
    """Return what a person would call a command: the script's stem where an interpreter runs one."""
    script = next((word for word in words[1:] if word.endswith(".py")), words[0])
    return Path(script).stem
