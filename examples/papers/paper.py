"""Folder of a paper: its rows, what it compares, and what it published."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypergauge.core.errors import BadRequest, did_you_mean

__all__ = ["METRICS", "Comparison", "Paper", "Published", "names", "read"]

EXAMPLES = Path(__file__).parents[1]
# Metrics of a set of runs, and those of a run against another one.
METRICS = ("slow-down", "throughput", "epoch_time", "cpu_utilization")
_COMPARISON = ("Configuration", "Metric", "New", "Old")
_PUBLISHED = ("Figure", "Configuration", "Metric", "Value", "Unit", "Read")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ratio that is compared.

    Attributes
    ----------
    new
        Workload, or a run by workload and position: ``4/1``; ``best`` for the best set of all.
    old
        The same of what it is compared with; empty for each run of the set alone.
    """

    configuration: str
    metric: str
    new: str
    old: str


@dataclass(frozen=True, slots=True)
class Published:
    """Published value, with its place in the paper or its data, and how it was read."""

    figure: str
    configuration: str
    metric: str
    value: str
    unit: str
    read: str


@dataclass(frozen=True, slots=True)
class Paper:
    """Paper as an experiment.

    Attributes
    ----------
    differs
        Difference between a host without its hardware and the paper.
    measures_listeners
        Whether listeners are what it measures, so that no row may lose any.
    """

    name: str
    title: str
    link: str
    hardware: str
    differs: str
    measures_listeners: bool
    comparisons: Sequence[Comparison]
    published: Mapping[tuple[str, str], Published]

    @property
    def rows(self) -> Path:
        """Experiment file with the rows of the paper."""
        return EXAMPLES / self.name / "experiments.csv"


def names() -> list[str]:
    """Return the names of the papers."""
    return sorted(path.parent.name for path in EXAMPLES.glob("*/paper.toml"))


def read(name: str) -> Paper:
    """Read a paper's folder.

    Raises
    ------
    BadRequest
        There is no such paper, or one of its files is malformed.
    """
    if name not in names():
        raise BadRequest(f"there is no paper {name!r}{did_you_mean(name, names())}")
    folder = EXAMPLES / name
    about = tomllib.loads((folder / "paper.toml").read_text())
    published = [Published(*row) for row in _table(folder / "published.csv", _PUBLISHED)]
    return Paper(
        name,
        about["title"],
        about["link"],
        about["hardware"],
        about["differs"],
        about.get("measures_listeners", False),
        [Comparison(*row) for row in _table(folder / "comparisons.csv", _COMPARISON)],
        {(one.configuration, one.metric): one for one in published},
    )


def _table(path: Path, columns: Sequence[str]) -> list[list[str]]:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    if header != list(columns):
        raise BadRequest(f"the columns are not {','.join(columns)}", file=path, line=1)
    for line, row in enumerate(rows, 2):
        if len(row) != len(columns) or (columns == _COMPARISON and row[1] not in METRICS):
            raise BadRequest(f"this is no row of {','.join(columns)}", file=path, line=line)
    return rows
