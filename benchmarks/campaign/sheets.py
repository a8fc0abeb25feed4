"""Experiment files of self-logging runs, and the commands that schedule them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from benchmarks.campaign import witness

__all__ = ["Sheet"]

_PLANS = (*["0"] * 8, "3 0", "-11 0", "wait 0", "7 7 7")
_FINAL = ("finished", "failed", "timeout", "stopped")


@dataclass
class Sheet:
    """One experiment file.

    Attributes
    ----------
    found
        Lines that the newest command had to run.
    kills
        Times at which the campaign killed a command on it.
    """

    RETRIES: ClassVar[int] = 2

    experiment: int
    path: Path
    logs: list[Path]
    found: list[int] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    lives: int = 0
    begun_at: float = 0.0

    @classmethod
    def make(cls, folder: Path, experiment: int, workloads: int, chance: Random) -> Sheet:
        """Write a file of that many workloads, with one or two runs of some seconds each."""
        rows: list[str] = []
        logs: list[Path] = []
        for workload in range(1, workloads + 1):
            for _ in range(chance.choice((1, 1, 2))):
                logs.append(folder / f"run-{experiment}-{len(logs)}.log")
                rows.append(
                    f"{experiment},{workload},{witness.__file__},{logs[-1]} {chance.uniform(2, 8):.1f} {chance.choice(_PLANS)}"
                )
        path = folder / f"{experiment}.csv"
        path.write_text("\n".join(["Experiment,Workload,File,Params", *rows]) + "\n")
        return cls(experiment, path, logs)

    @property
    def output(self) -> Path:
        """Output of the newest command."""
        return self.path.with_name(f"schedule-{self.experiment}-{self.lives}.txt")

    @property
    def rows(self) -> list[dict[str, str]]:
        """Current rows of the file."""
        with self.path.open(newline="") as file:
            return list(csv.DictReader(file))

    @property
    def due(self) -> list[int]:
        """Rows without a final status."""
        return [number for number, row in enumerate(self.rows) if row.get("Status") not in _FINAL]

    @property
    def expected_status(self) -> int:
        """Expected exit status of the newest command: 1 where one of its rows has not finished."""
        rows = self.rows
        return int(any(rows[number]["Status"] != "finished" for number in self.found))

    def begin(self, at: float) -> None:
        """Note the start of another command."""
        self.lives += 1
        self.begun_at = at
        self.found = self.due

    def accounts(self) -> dict[str, list[dict[str, Any]]]:
        """Return the runs' own logs, by id."""
        found: dict[str, list[dict[str, Any]]] = {}
        for log in self.logs:
            for line in log.read_text().splitlines() if log.exists() else ():
                entry = json.loads(line)
                found.setdefault(entry["run"], []).append(entry)
        return found
