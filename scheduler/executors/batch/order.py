"""Order of a job: the workload to run, as JSON in a batch script."""

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
# Columns that the submitter writes back, not the job.
_NOT_CARRIED = frozenset({"Status", "Run"})


@dataclass(frozen=True, slots=True)
class OrderedRun:
    """Queued run, with the cells of its row."""

    run_id: str
    position: int
    attempt: int
    cells: Mapping[str, str]

    @classmethod
    def of(cls, run_id: str, job: Job) -> Self:
        """Return the run of a row's job."""
        assert job.row is not None
        cells = {name: cell.text for name, cell in job.row.cells.items() if name not in _NOT_CARRIED}
        return cls(run_id, job.position, job.attempt, cells)


@dataclass(frozen=True, slots=True)
class WorkloadOrder:
    """Workload for another host.

    Attributes
    ----------
    job, executor
        Names of the job and of its executor.
    name
        Name of the experiment in MLflow.
    directory, file
        Working directory of the schedule, and the experiment file.
    policy, began
        See `hypergauge.scheduler.workload.Workload`.
    interval
        Seconds between two scrapes.
    home
        ``BENCH_HOME`` on that host.
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
        """Return the row of a run, in an experiment file with only this row.

        Raises
        ------
        BadExperimentFile
            The row has errors.
        """
        file = ExperimentFile.from_cells(Path(self.file), run.cells)
        return file, file.rows[0]

    def load_policy(self) -> Policy:
        """Return the policy."""
        return Policy(**self.policy)

    def script(self, python: str) -> str:
        """Return the batch script that executes the order with the interpreter `python`."""
        command = shlex.join([python, "-P", "-m", "hypergauge.cli", "job"])
        # The JSON is one line, so it cannot contain the end mark.
        return f"#!/bin/bash\nexec {command} <<'{_END}'\n{json.dumps(asdict(self))}\n{_END}\n"

    @classmethod
    def decode(cls, text: str) -> Self:
        """Parse the JSON of a batch script."""
        content = json.loads(text)
        return cls(**{**content, "runs": [OrderedRun(**run) for run in content["runs"]]})
