"""Options of Slurm: ``[slurm]`` in bench.toml and the column ``Slurm`` of an experiment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hypergauge.core.config.model import Items, Refused, Section, Tables, validated
from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.experiment.cells import parse_params
from hypergauge.scheduler.experiment.csv_text import Cell
from hypergauge.scheduler.experiment.experiment_file import Row

__all__ = ["COLUMN", "SlurmOptions", "cell_of", "row_options"]

COLUMN = "Slurm"
_NAMED = ("partition", "account", "qos", "constraint", "time")
# Reserved: a workload is one job on one node, found by its comment, with the GPUs that its rows name.
_OURS = {
    "--nodes": "-N", "--ntasks": "-n", "--array": "-a", "--comment": "", "--gres": "", "--gpus": "-G",
    "--gpus-per-node": "", "--gpus-per-task": "", "--ntasks-per-node": "", "--wrap": "", "--parsable": "",
    "--export": "", "--chdir": "-D", "--wait": "-W", "--test-only": "",
}  # fmt: skip


class SlurmOptions(Section):
    """The section ``[slurm]``.

    Attributes
    ----------
    options
        More words for ``sbatch``.
    gres, mig
        Requests for GPUs, with ``{count}``, and for MIG instances, with ``{profile}`` too.
    python, home
        The interpreter with this package on the nodes, and ``BENCH_HOME`` there; ``None`` for those of this host.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    time: str | None = None
    options: Items[str] = Field((), description="a list of strings")
    gres: str = "gpu:{count}"
    mig: str = "gpu:{profile}:{count}"
    python: str | None = None
    home: Path | None = Field(None, description="a string")

    @classmethod
    def read(cls, section: Mapping[str, Any], file: Path | None) -> SlurmOptions:
        """Read the section.

        Raises
        ------
        BadRequest
            A key or value is wrong, or an option is reserved.
        """
        return validated(_File, Tables(file or Path("bench.toml"), {COLUMN.lower(): section})).slurm

    @field_validator("gres", "mig")
    @classmethod
    def _fields(cls, value: str, info: ValidationInfo) -> str:
        try:
            value.format(count=1, profile="1g.5gb")
        except (KeyError, IndexError, ValueError):
            known = "{count} and, for mig, {profile}"
            raise ValueError(f"{info.field_name} is {value!r}, but its replacement fields are {known}") from None
        return value

    @model_validator(mode="after")
    def _allowed(self) -> Self:
        if problem := _problem(self.words):
            raise Refused(None, problem)
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """Words for ``sbatch``."""
        named = {name: getattr(self, name) for name in _NAMED}
        return (*(f"--{name}={value}" for name, value in named.items() if value is not None), *self.options)


class _File(Section):
    slurm: SlurmOptions


def cell_of(row: Row) -> Cell | None:
    """Return the cell of a row in the column ``Slurm``."""
    return row.cells.get(COLUMN)


def row_options(text: str) -> tuple[str, ...]:
    """Return the words of a cell for ``sbatch``: ``partition=gpu`` is ``--partition=gpu``.

    Raises
    ------
    BadRequest
        The cell cannot be split into words, or one of them is reserved.
    """
    words = tuple(parse_params("" if text == "-" else text))
    if problem := _problem(words):
        raise BadRequest(problem)
    return words


def _problem(words: Sequence[str]) -> str | None:
    for word in words:
        for long, short in _OURS.items():
            if word.partition("=")[0] == long or (short and word.startswith(short) and not word.startswith("--")):
                return f"{long} is reserved: a workload is one job on one node, with the GPUs that its rows name"
    return None
