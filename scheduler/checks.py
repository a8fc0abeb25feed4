"""Whether this host can do what an experiment file asks for: its scripts, environments, devices and listeners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.errors import BadRequest, did_you_mean
from bench.gpu import Gpu, Inventory
from scheduler import profilers
from scheduler.cells import LISTENERS, listener_words
from scheduler.collocation import collocation_problem, workload_problems
from scheduler.commands import command_problems, environment_of
from scheduler.csv_text import Problem
from scheduler.experiment_file import BadExperimentFile, ExperimentFile, Row

__all__ = ["check", "load"]

_TO_DO = ("", "running")


def load(path: Path, inventory: Inventory, exporters: Mapping[str, str | None]) -> ExperimentFile:
    """Read a file and check it, so that everything that is wrong with it is said at once; see `check`."""
    file, problems = ExperimentFile.parse(path)
    problems += _problems(file, inventory, exporters)
    if problems:
        raise BadExperimentFile(path, problems)
    return file


def check(file: ExperimentFile, inventory: Inventory, exporters: Mapping[str, str | None]) -> None:
    """Refuse a file that cannot be run on this host.

    Parameters
    ----------
    file
        The file as read.
    inventory
        The GPUs that there are.
    exporters
        The listeners that there are, by name, with the reason where one cannot work on this host.

    Raises
    ------
    BadExperimentFile
        With all that is wrong.
    """
    if problems := list(_problems(file, inventory, exporters)):
        raise BadExperimentFile(file.path, problems)


def _problems(file: ExperimentFile, inventory: Inventory, exporters: Mapping[str, str | None]) -> Iterator[Problem]:
    sound = []
    for row in file.rows:
        before = list(_row_problems(file, row, inventory, exporters))
        for column, message in before:
            yield _problem(row, column, message)
        if not before and row.status in _TO_DO:
            sound.append(row)
    for row, message in workload_problems(sound, inventory):
        yield _problem(row, "Collocation", message)


def _problem(row: Row, column: str, message: str) -> Problem:
    cell = row.cells[column]
    return Problem(cell.line, cell.column, f"{column}: {message}")


def _row_problems(
    file: ExperimentFile, row: Row, inventory: Inventory, exporters: Mapping[str, str | None]
) -> Iterator[tuple[str, str]]:
    """Yield the column and the message of what is wrong; a column that a row does not have is never wrong."""
    yield from command_problems(file, row)
    gpus, messages = _find_devices(row, inventory)
    yield from (("Devices", message) for message in messages)
    if message := collocation_problem(row.collocation, row.devices, gpus):
        yield "Collocation", message
    for name in row.listeners:
        if message := _listener_problem(name, exporters):
            yield "Listeners", message
    yield from (("Listeners", message) for message in _profiler_problems(file, row))


def _find_devices(row: Row, inventory: Inventory) -> tuple[list[Gpu], list[str]]:
    gpus, messages = [], []
    for word in row.devices:
        try:
            gpus.append(inventory.find(word))
        except BadRequest as error:
            messages.append(str(error))
    if len({gpu.uuid for gpu in gpus}) < len(gpus):
        messages.append(f"{'+'.join(row.devices)} names a device twice")
    return gpus, messages


def _profiler_problems(file: ExperimentFile, row: Row) -> Iterator[str]:
    environment = environment_of(file, row)
    if row.wrappers and environment.problem() is None:
        python = None if environment.container else environment.python()
        yield from profilers.problems(row.wrappers, python, script=file.script(row) is not None)


def _listener_problem(name: str, exporters: Mapping[str, str | None]) -> str | None:
    if name in exporters:
        reason = exporters[name]
        return f"the listener {name!r} cannot work here: {reason}" if reason is not None else None
    if name in LISTENERS:
        return f"the listener {name!r} is not installed here"
    return f"there is no listener {name!r}{did_you_mean(name, [*listener_words(), *exporters])}"
