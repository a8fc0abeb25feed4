"""Job: everything needed to start one run, from a row of a file or from ``bench run``."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Gpu, Inventory
from hypergauge.scheduler.experiment import parameters
from hypergauge.scheduler.experiment.cells import Collocation, Environment
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile, Row, fingerprint
from hypergauge.scheduler.experiment.parameters import HIDDEN
from hypergauge.scheduler.launch.commands import command_in, command_of
from hypergauge.scheduler.launch.launch import Command
from hypergauge.scheduler.profilers import completed, problems
from hypergauge.sql.ingest.choices import Choice
from hypergauge.sql.runs.runs import KnownRun

__all__ = ["Job", "job_from_command", "job_from_row"]


@dataclass(frozen=True, slots=True)
class Job:
    """Run to start, with its position in the experiment.

    Attributes
    ----------
    devices
        GPUs of the run. ``None``: those that the shell sees; empty: none, they are hidden.
    line, row
        Its row in the experiment file, and the line of that row.
    exporters
        Exporters that measure it, with their intervals; ``None`` for all that work on the host.
    profilers
        Profilers that wrap it.
    actions
        Actions by the rule that triggers them.
    previous
        Run at the same position: to attach to, or the attempt before this one.
    request
        Cells or command line to repeat it from, without secrets.
    run_id
        Id of its run if it is already queued.
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
    exporters: Choice | None = None
    profilers: tuple[str, ...] = ()
    actions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    previous: KnownRun | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    row: Row | None = field(default=None, compare=False, repr=False)
    run_id: str | None = None

    def next_attempt(self) -> Job:
        """Return the job of the next attempt."""
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
    """Return the job of a row in a checked file. Without an inventory its devices are unknown."""
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
        exporters=row.listeners,
        profilers=completed(row.wrappers),
        actions={rule: [action for name, action in row.actions if name == rule] for rule, _ in row.actions},
        previous=previous,
        request={"directory": str(Path.cwd()), "file": str(file.path.absolute()), "cells": _request_of(row)},
        row=row,
    )


def job_from_command(
    words: Sequence[str],
    *,
    name: str | None,
    devices: tuple[Gpu, ...] | None,
    collocation: Collocation | None = None,
    environment: Environment | None = None,
    exporters: Choice | None = None,
    profilers: tuple[str, ...] = (),
    notify: Callable[[str], None] = lambda _: None,
) -> Job:
    """Return the job of a command as typed.

    Parameters
    ----------
    environment
        Its environment; by default that of the shell.
    notify
        Receiver of messages about an environment that is created.

    Raises
    ------
    BadRequest
        A profiler or the environment cannot be used.
    """
    collocation, environment = collocation or Collocation(), environment or Environment()
    command = _as_typed(words) if environment == Environment() else command_in(environment, words, notify)
    python = command.python
    script = python is not None and any(word.endswith(".py") for word in words[1:2])
    for problem in problems(profilers, None if command.container else python or sys.executable, script=script):
        raise BadRequest(problem)
    uuids = None if devices is None else [gpu.uuid for gpu in devices]
    identity = [list(words), uuids, str(collocation), *profilers]
    if environment != Environment():
        identity.append(str(environment))
    return Job(
        name=name or _name_of(words),
        command=command,
        params=parameters.named(words[1:]),
        shown_command=parameters.shown(words),
        environment=str(environment),
        collocation=collocation,
        devices=devices,
        fingerprint=hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
        position=1,
        attempt=1,
        exporters=exporters,
        profilers=profilers,
        request={
            "directory": str(Path.cwd()),
            "words": shlex.split(parameters.shown(words)),
            "environment": str(environment),
            "exporters": exporters,
            "profilers": list(profilers),
        },
    )


def _as_typed(words: Sequence[str]) -> Command:
    return Command(
        tuple(words),
        Path.cwd(),
        {},
        python=_python_of(words),
        folders=_folders_of(words),
        shown=parameters.shown(words),
    )


def _request_of(row: Row) -> dict[str, str]:
    """Return a row's cells by column; without columns that look secret, and what looks so in its parameters hidden."""
    without = {"Status", "Run", *filter(parameters.looks_secret, row.cells)}
    cells = {column: cell.text for column, cell in row.cells.items() if column not in without}
    if (shown := parameters.shown(row.params)) and HIDDEN in shown:
        cells["Params"] = shown
    return cells


def _python_of(words: Sequence[str]) -> str | None:
    """Return the interpreter that a command begins with, ``None`` if it begins with another program."""
    return shutil.which(words[0]) if re.fullmatch(r"python[0-9.]*", Path(words[0]).name) else None


def _folders_of(words: Sequence[str]) -> tuple[Path, ...]:
    """Return the folder of the script in a command."""
    return tuple(Path(word).resolve().parent for word in words[1:] if word.endswith(".py") and Path(word).is_file())[:1]


def _name_of(words: Sequence[str]) -> str:
    """Return a readable name of a command: the stem of its script, else of its program."""
    script = next((word for word in words[1:] if word.endswith(".py")), words[0])
    return Path(script).stem
