"""A job: everything needed to start one run, wherever it was asked for (a row of a file, or ``bench run``)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.gpu import Gpu, Inventory
from scheduler import parameters
from scheduler.cells import Collocation
from scheduler.commands import command_of
from scheduler.experiment_file import ExperimentFile, Row, fingerprint
from scheduler.launch import Command
from sql.runs import KnownRun

__all__ = ["Job", "job_from_command", "job_from_row"]


@dataclass(frozen=True, slots=True)
class Job:
    """One run to be, with its place in the experiment.

    `devices` is ``None`` where the run sees the GPUs that the shell sees, and empty where they are hidden from it;
    `line` is that of its row in the experiment file; `previous` the run that the plan found at its position: the one to
    attach to, or that this one is the next attempt of.
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
    previous: KnownRun | None = None

    def again(self) -> Job:
        """Return the same job as its next attempt."""
        return replace(self, attempt=self.attempt + 1, previous=None)


def job_from_row(
    file: ExperimentFile, row: Row, inventory: Inventory, *, position: int, attempt: int, previous: KnownRun | None
) -> Job:
    """Return the job that a row asks for; the file has been checked."""
    command = command_of(file, row)
    given = {"model": row.model, "data": row.data} if row.model else {}
    return Job(
        name=row.name,
        command=command,
        params={name: value for name, value in given.items() if value} | parameters.named(row.params),
        shown_command=command.shown,
        environment=str(row.environment),
        collocation=row.collocation,
        devices=tuple(inventory.find(word) for word in row.devices),
        fingerprint=fingerprint(row),
        position=position,
        attempt=attempt,
        line=row.line,
        previous=previous,
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
        command=Command(tuple(words), Path.cwd(), {}, shown=parameters.shown(words)),
        params=parameters.named(words[1:]),
        shown_command=parameters.shown(words),
        environment="-",
        collocation=collocation,
        devices=devices,
        fingerprint=hashlib.sha256(json.dumps([list(words), uuids, str(collocation)]).encode()).hexdigest(),
        position=1,
        attempt=1,
    )


def _name_of(words: Sequence[str]) -> str:
    """Return what a person would call a command: the script's stem where an interpreter runs one."""
    script = next((word for word in words[1:] if word.endswith(".py")), words[0])
    return Path(script).stem
