"""Checks of an experiment file on this host: scripts, environments, devices, exporters, actions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.gpu import Gpu, Inventory
from hypergauge.gpu.vendors import VENDORS
from hypergauge.scheduler import profilers
from hypergauge.scheduler.environments.container_gpus import without_containers
from hypergauge.scheduler.experiment import radt_sweep
from hypergauge.scheduler.experiment.cells import LISTENERS, listener_words
from hypergauge.scheduler.experiment.csv_text import Problem
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile, Row
from hypergauge.scheduler.launch.commands import command_problems, environment_of
from hypergauge.scheduler.plan.collocation import collocation_problem, workload_problems

__all__ = ["Reactions", "check", "listener_problem", "load"]

_SWEEPS = (".toml", *radt_sweep.SUFFIXES)
_TO_DO = ("", "running")


@dataclass(frozen=True, slots=True)
class Reactions:
    """Names of enabled rules, disabled rules and actions."""

    rules: Collection[str] = ()
    off: Collection[str] = ()
    actions: Collection[str] = ()

    def problem(self, rule: str, action: str) -> str | None:
        """Return the reason why `rule` cannot trigger `action`; ``None`` if it can."""
        if rule in self.off:
            return f"the rule {rule!r} is switched off in bench.toml"
        if rule not in self.rules:
            return f"there is no rule {rule!r}{did_you_mean(rule, self.rules)}"
        if action not in self.actions:
            return f"there is no action {action!r}{did_you_mean(action, self.actions)}"
        return None


def load(
    path: Path, inventory: Inventory | None, exporters: Mapping[str, str | None], reactions: Reactions | None = None
) -> ExperimentFile:
    """Read a file and check it; report all errors at once. See `check`.

    Without an inventory, the host that runs the file checks the devices.
    """
    if path.suffix.lower() in _SWEEPS:
        raise BadRequest("this is not a CSV file; `bench sweep` converts a sweep into an experiment file", file=path)
    file, problems = ExperimentFile.parse(path)
    problems += _problems(file, inventory, exporters, reactions or Reactions())
    if problems:
        raise BadExperimentFile(path, problems)
    return file


def check(
    file: ExperimentFile, inventory: Inventory, exporters: Mapping[str, str | None], reactions: Reactions | None = None
) -> None:
    """Refuse a file that cannot be run on this host.

    Parameters
    ----------
    file
        Parsed file.
    inventory
        GPUs of this host.
    exporters
        Installed exporters by name, with the reason why one cannot work on this host, else ``None``.
    reactions
        Rules and actions; none by default.

    Raises
    ------
    BadExperimentFile
        The file has errors; the message lists all of them.
    """
    if problems := list(_problems(file, inventory, exporters, reactions or Reactions())):
        raise BadExperimentFile(file.path, problems)


def _problems(
    file: ExperimentFile, inventory: Inventory | None, exporters: Mapping[str, str | None], reactions: Reactions
) -> Iterator[Problem]:
    sound = []
    for row in file.rows:
        before = [*_row_problems(file, row, inventory, exporters), *_action_problems(row, reactions)]
        for column, message in before:
            yield _problem(row, column, message)
        if not before and row.status in _TO_DO:
            sound.append(row)
    for row, message in workload_problems(sound, inventory) if inventory else ():
        yield _problem(row, "Collocation", message)


def _problem(row: Row, column: str, message: str) -> Problem:
    cell = row.cells[column]
    return Problem(cell.line, cell.column, f"{column}: {message}")


def _row_problems(
    file: ExperimentFile, row: Row, inventory: Inventory | None, exporters: Mapping[str, str | None]
) -> Iterator[tuple[str, str]]:
    """Yield column and message of each error; a missing column has no errors."""
    yield from command_problems(file, row)
    gpus, messages = _find_devices(row, inventory) if inventory else ([], [])
    yield from (("Devices", message) for message in messages)
    if message := collocation_problem(row.collocation, row.devices, gpus):
        yield "Collocation", message
    if environment_of(file, row).container is not None:
        for vendor in without_containers({gpu.vendor for gpu in gpus}):
            yield "Environment", f"a container cannot use {VENDORS[vendor].title}'s GPU: choose '-', a venv or conda"
    for name in row.listeners or ():
        if message := listener_problem(name, exporters):
            yield "Listeners", message
    yield from (("Listeners", message) for message in _profiler_problems(file, row, here=inventory is not None))


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


def _profiler_problems(file: ExperimentFile, row: Row, *, here: bool) -> Iterator[str]:
    environment = environment_of(file, row)
    if row.wrappers and environment.problem() is None:
        python = None if environment.container else environment.python()
        words, script = profilers.completed(row.wrappers), file.script(row) is not None
        yield from profilers.problems(words, python, script=script, here=here)


def _action_problems(row: Row, reactions: Reactions) -> Iterator[tuple[str, str]]:
    for rule, action in row.actions:
        if message := reactions.problem(rule, action):
            yield "Actions", message


def listener_problem(name: str, exporters: Mapping[str, str | None]) -> str | None:
    """Return the reason why an exporter cannot measure a run here; ``None`` if it can.

    Parameters
    ----------
    exporters
        Installed exporters by name, with the reason why one cannot work on this host, else ``None``.
    """
    if name in exporters:
        reason = exporters[name]
        return f"the exporter {name!r} cannot work here: {reason}" if reason is not None else None
    if name in LISTENERS:
        return f"the exporter {name!r} is not installed here"
    return f"there is no exporter {name!r}{did_you_mean(name, dict.fromkeys([*listener_words(), *exporters]))}"
