"""Rows of a paper that this host can run, and the reasons against the others."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.papers.paper import Paper
from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory
from hypergauge.scheduler.experiment.cells import parse_listeners
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile
from hypergauge.scheduler.plan import checks

__all__ = ["SMALL", "Choices", "Host", "Selection", "select"]

# Sizes that a processor trains in seconds, in place of the paper's.
SMALL = {
    "digits": "--width 8 --images 8192 --batch-size 64 --epochs 4 --threads 1",
    "resnet18": "--width 16 --pixels 32 --images 2048 --batch-size 32 --epochs 3 --threads 1",
    "resnet26": "--width 16 --pixels 32 --images 1024 --batch-size 32 --epochs 3 --threads 1",
    "resnet50": "--width 16 --pixels 32 --images 768 --batch-size 32 --epochs 3 --threads 1",
    "resnet152": "--width 8 --pixels 64 --images 256 --batch-size 16 --epochs 3 --threads 1",
    "efficientnet": "--width 16 --pixels 32 --images 1024 --batch-size 32 --epochs 3 --threads 1",
}
# Column that marks a file as written here, so that it may be written again.
_MARK = "Paper"
_INDEPENDENT = "-"


@dataclass(frozen=True, slots=True)
class Host:
    """GPUs of this host, without simulated ones, and its exporters with the reason why one cannot work."""

    gpus: Inventory
    exporters: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of the user.

    Attributes
    ----------
    python
        Python with PyTorch.
    small
        Whether models and images have the sizes of `SMALL` instead of the paper's.
    """

    python: Path
    small: bool
    experiment: int | None = None
    gpu: str = "0"
    mig_gpu: str = "2"
    params: str = ""
    workloads: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows that can run here, and the excluded workloads by their way of sharing, if any, and the reason."""

    rows: list[dict[str, str]]
    excluded: Mapping[tuple[str, str], Sequence[int]]

    @property
    def workloads(self) -> set[int]:
        """Numbers of the workloads that can run here."""
        return {int(row["Workload"]) for row in self.rows}

    def write(self, path: Path, paper: Paper) -> None:
        """Write the experiment file.

        Raises
        ------
        BadRequest
            There is another file of that name, or its rows ran with other parameters: the results would not be those of one row.
        """
        if path.exists():
            self._check(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*self.rows[0], _MARK], lineterminator="\n")
            writer.writeheader()
            writer.writerows({**row, _MARK: paper.name} for row in self.rows)

    def _check(self, path: Path) -> None:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            if (reader.fieldnames or [""])[-1] != _MARK:
                raise BadRequest(f"{path} is no file of this command; choose another --folder")
            before = [*reader]
        mine = [_content(row) for row in self.rows]
        again = {(row["Experiment"], row["Workload"]) for row in self.rows}
        for line, row in enumerate(before, 2):
            if row["Status"] and (row["Experiment"], row["Workload"]) in again and _content(row) not in mine:
                message = "this row ran with other choices; repeat those, or choose another --experiment"
                raise BadRequest(message, file=path, line=line)


def select(paper: Paper, choices: Choices, host: Host, scratch: Path) -> Selection:
    """Return the rows that this host can run; a workload runs as a whole or not at all.

    Parameters
    ----------
    scratch
        Folder for the files that are checked.
    """
    with paper.rows.open(newline="") as file:
        rows = [_adapted(row, paper, choices, host) for row in csv.DictReader(file)]
    unknown = set(choices.workloads) - {int(row["Workload"]) for row in rows}
    if unknown:
        raise BadRequest(f"{paper.name} has no workload {min(unknown)}; its rows are in {paper.rows}")
    if choices.workloads:
        rows = [row for row in rows if int(row["Workload"]) in choices.workloads]
    sharing = {int(row["Workload"]): _sharing(row) for row in rows}
    excluded: dict[tuple[str, str], list[int]] = {}
    # A mix of instances is checked only if each row is sound, so the rest may have further problems.
    while rows and (problems := _problems(rows, paper, host, scratch)):
        for workload, reason in problems.items():
            excluded.setdefault((sharing[workload], reason), []).append(workload)
        rows = [row for row in rows if int(row["Workload"]) not in problems]
    return Selection(rows, excluded)


def _adapted(row: dict[str, str], paper: Paper, choices: Choices, host: Host) -> dict[str, str]:
    """Return a row with the script, the interpreter, devices, exporters and sizes of this host."""
    script = os.path.normpath(paper.rows.parent / row["File"])
    model = row["Params"].split()[1]
    params = f"--model {model} {SMALL[model]}" if choices.small else row["Params"]
    experiment = row["Experiment"] if choices.experiment is None else str(choices.experiment)
    listeners = row["Listeners"] if paper.measures_listeners else _working(row["Listeners"], host)
    return {
        **row,
        "Experiment": experiment,
        "Devices": _devices(row, choices, host),
        "File": script,
        "Environment": "-" if choices.python == Path(sys.executable) else f"venv:{choices.python.parents[1]}",
        "Listeners": listeners,
        "Params": f"{params} {choices.params}".strip(),
    }


def _content(row: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in row.items() if name not in ("Status", "Run", _MARK)}


def _sharing(row: dict[str, str]) -> str:
    return {_INDEPENDENT: "", "MPS": "MPS, "}.get(row["Collocation"], "MIG, ")


def _devices(row: dict[str, str], choices: Choices, host: Host) -> str:
    """Return a row's GPU; none for the rows that need no GPU where there is none."""
    if row["Collocation"] == _INDEPENDENT:
        return choices.gpu if host.gpus.gpus else ""
    return choices.gpu if row["Collocation"] == "MPS" else choices.mig_gpu


def _working(listeners: str, host: Host) -> str:
    """Return the listeners that work here; empty for all that do."""
    return "+".join(
        word
        for word in listeners.split("+")
        if not any(checks.listener_problem(name, host.exporters) for name in parse_listeners(word)[0] or ())
    )


def _problems(rows: Sequence[dict[str, str]], paper: Paper, host: Host, scratch: Path) -> dict[int, str]:
    """Return the first problem of each workload that this host cannot run."""
    path = scratch / f"{paper.name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    try:
        checks.load(path, host.gpus, host.exporters)
    except BadExperimentFile as error:
        found: dict[int, str] = {}
        for problem in error.problems:
            # The header is line 1.
            found.setdefault(int(rows[problem.line - 2]["Workload"]), problem.message)
        return found
    return {}
