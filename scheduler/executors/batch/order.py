"""Order of a job: JSON in a batch script."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from hypergauge.scheduler.experiment.experiment_file import ExperimentFile, Row
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.policy import Policy

__all__ = ["OrderedRun", "WorkloadOrder"]

_END = "END OF THE ORDER"
# Written back by the submitter.
_NOT_CARRIED = frozenset({"Status", "Run"})


@dataclass(frozen=True, slots=True)
class OrderedRun:
    """A run that has been queued, with the cells of its row."""

    run_id: str
    position: int
    attempt: int
    cells: Mapping[str, str]

    @classmethod
    def of(cls, run_id: str, job: Job) -> Self:
        """Return the run of a job that comes from a row."""
        assert job.row is not None
        cells = {name: cell.text for name, cell in job.row.cells.items() if name not in _NOT_CARRIED}
        return cls(run_id, job.position, job.attempt, cells)


@dataclass(frozen=True, slots=True)
class WorkloadOrder:
    """A workload for another host.

    Attributes
    ----------
    job, executor
        Name of the job, and of its executor.
    name
        The experiment's, as MLflow has it.
    directory, file
        Where the schedule was asked for, and the experiment file.
    policy, began
        As `hypergauge.scheduler.workload.Workload` takes them.
    interval
        Seconds between two scrapes.
    home
        ``BENCH_HOME`` there; ``None`` for the default there.
    """

    job: str
    executor: str
    experiment: int
    workload: int
    name: str
    directory: str
    file: str
    runs: Sequence[OrderedRun]
    policy: Mapping[str, Any]
    began: float | None
    interval: float
    home: str

    def row(self, run: OrderedRun) -> tuple[ExperimentFile, Row]:
        """Return the row of a run, in a file of its own.

        Raises
        ------
        BadExperimentFile
            It is not well-formed.
        """
        file = ExperimentFile.from_cells(Path(self.file), run.cells)
        return file, file.rows[0]

    def load_policy(self) -> Policy:
        """Return the policy."""
        return Policy(**self.policy)

    def script(self, python: str) -> str:
        """Return the batch script that has `python` carry this out."""
        command = shlex.join([python, "-P", "-m", "hypergauge.cli", "job"])
        # JSON has no line ends of its own.
        return f"#!/bin/bash\nexec {command} <<'{_END}'\n{json.dumps(asdict(self))}\n{_END}\n"

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read what the script hands over."""
        content = json.loads(text)
        return cls(**{**content, "runs": [OrderedRun(**run) for run in content["runs"]]})
