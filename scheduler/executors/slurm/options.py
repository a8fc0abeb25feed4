"""Options of Slurm: ``[slurm]`` in bench.toml and the column ``Slurm`` of an experiment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.scheduler.experiment.cells import parse_params
from hypergauge.scheduler.experiment.csv_text import Cell
from hypergauge.scheduler.experiment.experiment_file import Row

__all__ = ["COLUMN", "SlurmOptions", "cell_of", "row_options"]

COLUMN = "Slurm"
_NAMED = ("partition", "account", "qos", "constraint", "time")
_STRINGS = (*_NAMED, "gres", "mig", "python", "home")
# Ours to say: a workload is one job on one node, found by its comment, with the GPUs that its rows name.
_OURS = {
    "--nodes": "-N", "--ntasks": "-n", "--array": "-a", "--comment": "", "--gres": "", "--gpus": "-G",
    "--gpus-per-node": "", "--gpus-per-task": "", "--ntasks-per-node": "", "--wrap": "", "--parsable": "",
    "--export": "", "--chdir": "-D", "--wait": "-W", "--test-only": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """The section ``[slurm]``.

    Attributes
    ----------
    options
        Words for ``sbatch``, those of ``partition`` and the like among them.
    gres, mig
        How GPUs are asked for, with ``{count}``, and MIG instances, with ``{profile}`` too.
    python, home
        The interpreter with this package on the nodes, and ``BENCH_HOME`` there; ``None`` for those of this host.
    """

    options: tuple[str, ...] = ()
    gres: str = "gpu:{count}"
    mig: str = "gpu:{profile}:{count}"
    python: str | None = None
    home: Path | None = None

    @classmethod
    def read(cls, section: Mapping[str, Any], file: Path | None) -> SlurmOptions:
        """Read the section.

        Raises
        ------
        BadRequest
            It says something that does not exist, or is ours to say.
        """
        for key, value in section.items():
            _check(key, value, file)
        words = [f"--{name}={section[name]}" for name in _NAMED if name in section] + list(section.get("options", []))
        if problem := _problem(words):
            raise BadRequest(f"[slurm]: {problem}", file=file)
        found = {name: section[name] for name in ("gres", "mig", "python") if name in section}
        home = Path(section["home"]) if "home" in section else None
        return cls(tuple(words), home=home, **found)


def cell_of(row: Row) -> Cell | None:
    """Return a row's cell in the column ``Slurm``."""
    return row.cells.get(COLUMN)


def row_options(text: str) -> tuple[str, ...]:
    """Return the words for ``sbatch`` that a cell says: ``partition=gpu`` is ``--partition=gpu``.

    Raises
    ------
    BadRequest
        They cannot be split, or one is ours to say.
    """
    words = tuple(parse_params("" if text == "-" else text))
    if problem := _problem(words):
        raise BadRequest(problem)
    return words


def _check(key: str, value: object, file: Path | None) -> None:
    if key == "options":
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise BadRequest("[slurm]: options must be a list of strings", file=file)
    elif key not in _STRINGS:
        known = sorted([*_STRINGS, "options"])
        raise BadRequest(f"[slurm]: unknown setting {key!r}{did_you_mean(key, known)}", file=file)
    elif not isinstance(value, str):
        raise BadRequest(f"[slurm]: {key} is {value!r}, but must be a string", file=file)
    elif key in ("gres", "mig"):
        try:
            value.format(count=1, profile="1g.5gb")
        except (KeyError, IndexError, ValueError):
            raise BadRequest(
                f"[slurm]: {key} is {value!r}, but its places are {{count}} and, for mig, {{profile}}", file=file
            ) from None


def _problem(words: Sequence[str]) -> str | None:
    for word in words:
        for long, short in _OURS.items():
            if word.partition("=")[0] == long or (short and word.startswith(short) and not word.startswith("--")):
                return f"{long} is not for rows to say: a workload is one job on one node, with the GPUs that it names"
    return None
