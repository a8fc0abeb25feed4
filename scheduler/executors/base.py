"""Protocols of executors and batch systems.

A schedule uses the protocol `Executor` alone. The executor ``local`` runs workloads on this host. Every other executor
submits each workload as one job to a `BatchSystem`, which places it on a host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from hypergauge.core.errors import BenchError
from hypergauge.gpu import Gpu, Inventory
from hypergauge.scheduler.events import Outcome, Report
from hypergauge.scheduler.experiment.experiment_file import Row
from hypergauge.scheduler.plan.file_plan import WriteBack
from hypergauge.scheduler.plan.iterations import Iteration, JobsToRun
from hypergauge.scheduler.plan.plan import PlannedRun, PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.plan.retries import Runner
from hypergauge.sql.runs.jobs import Account
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = [
    "LOCAL",
    "Account",
    "BatchSystem",
    "Executor",
    "ExecutorAway",
    "JobState",
    "Request",
    "RunExit",
    "Stopping",
    "Submission",
    "WorkloadFile",
]


# The executor that needs no batch system.
LOCAL = "local"


@dataclass(frozen=True)
class Stopping:
    """Stop flags of a schedule: `asked` stops runs in order, `at_once` kills them, `failed` starts no further workload."""

    asked: threading.Event = field(default_factory=threading.Event)
    at_once: threading.Event = field(default_factory=threading.Event)
    failed: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    """Experiment file of a workload: its path, and the function that writes ``{line: (status, run id)}`` into it."""

    path: Path
    write_back: WriteBack


class Executor(Protocol):
    """Executor of the workloads of a schedule: on this host, or as jobs of a batch system."""

    @property
    def name(self) -> str:
        """Name that ``--executor`` takes."""

    @property
    def database(self) -> Database:
        """Database that records the runs."""

    @property
    def report(self) -> Report:
        """Receiver of each `Event`."""

    @property
    def stopping(self) -> Stopping:
        """Stop flags of the schedule."""

    @property
    def inventory(self) -> Inventory | None:
        """GPUs of the host; ``None`` where only the host of a job knows them."""

    def recover(self, session: Session, experiment: int) -> None:
        """Finish work that earlier commands left in an experiment, before it is planned."""

    def begin(self, session: Session, workloads: Sequence[PlannedWorkload], policy: Policy) -> None:
        """Prepare for all workloads of a schedule."""

    def run_all(
        self,
        session: Session,
        iterations: Sequence[Iteration],
        run: Callable[[Session, Iteration], list[Outcome]],
    ) -> list[Outcome]:
        """Call `run` for each iteration until `stopping` ends the schedule; return all outcomes.

        Raises
        ------
        KeyboardInterrupt
            The user interrupted the schedule, and all runs have ended.
        """

    def resume(self, session: Session, run: PlannedRun) -> str | None:
        """Return the status of an earlier run: ``running`` to attach to it, another if it ended, ``None`` to repeat it.

        Raises
        ------
        BadRequest
            The run is running elsewhere.
        """

    def prepare(self, session: Session, iteration: Iteration, jobs: JobsToRun) -> None:
        """Prepare for one iteration, just before its workload is opened."""

    def open(self, workload: PlannedWorkload, file: WorkloadFile, policy: Policy, began: float | None) -> Runner:
        """Return the runner of a workload's jobs; `began` is its first release, in Unix seconds."""

    def settle(self, run_ids: Sequence[str]) -> None:
        """Wait until the last samples of ended runs are in the database."""


class ExecutorAway(BenchError):
    """The executor does not answer. A later request may succeed."""


@dataclass(frozen=True, slots=True)
class Request:
    """Resources that a workload needs.

    Attributes
    ----------
    gpus
        Number of whole GPUs.
    profiles
        Number of MIG instances, by profile.
    options
        Other options of its rows, for the batch system.
    """

    gpus: int = 0
    profiles: Mapping[str, int] = field(default_factory=dict)
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Submission:
    """Submission of a job.

    Attributes
    ----------
    name
        Name by which `BatchSystem.find` finds it while its id is unknown.
    label
        Label for users: ``20/1 digits``.
    script
        Bash script; its only secrets are those in a row's parameters.
    environment
        Environment variables, which may be secrets.
    directory
        Its working directory.
    """

    name: str
    label: str
    request: Request
    script: str
    environment: Mapping[str, str] = field(repr=False)
    directory: Path


@dataclass(frozen=True, slots=True)
class RunExit:
    """Exit of a run that the batch system ended: status and reason."""

    status: Literal["failed", "stopped", "timeout"]
    reason: str


@dataclass(frozen=True, slots=True)
class JobState:
    """State of a job.

    Attributes
    ----------
    reason
        Reason why it waits or has ended.
    host
        Its host.
    ended_at
        End, in Unix seconds.
    run_exit
        Exit of the runs that ended with it; ``None`` if it ended by itself.
    run_exits
        Exits of single runs, by id, if known.
    """

    state: Literal["pending", "running", "ended"]
    reason: str | None = None
    host: str | None = None
    ended_at: float | None = None
    run_exit: RunExit | None = None
    run_exits: Mapping[str, RunExit | None] = field(default_factory=dict)


class BatchSystem(Protocol):
    """Batch system that places jobs on hosts. Entry points of the group ``hypergauge.executors`` create it.

    Each method may raise `ExecutorAway`.
    """

    @property
    def name(self) -> str:
        """Display name."""

    @property
    def python(self) -> str:
        """Interpreter on the hosts that has this package."""

    @property
    def home(self) -> Path | None:
        """``BENCH_HOME`` on the hosts; ``None`` for that of this host."""

    def problems(self, rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
        """Yield row, column and message of each problem in the rows of a workload."""

    def request(self, rows: Sequence[Row]) -> Request:
        """Return the resources that the rows of a workload need; they have no `problems`."""

    def check(self, request: Request, directory: Path) -> str | None:
        """Return why no host can satisfy the request, ``None`` if one may."""

    def submit(self, job: Submission) -> str:
        """Submit a job; return its id.

        Raises
        ------
        BadRequest
            The batch system refuses the job.
        """

    def find(self, name: str) -> str | None:
        """Return the id of the job submitted under `name`, ``None`` if there is none."""

    def look(self, job_id: str) -> JobState | None:
        """Return the state of a job, ``None`` if it is no longer known."""

    def cancel(self, job_id: str) -> None:
        """End a job, unless it has ended."""

    def accounts(self, job_id: str) -> Mapping[str, Account] | None:
        """Return the resource usage of the runs of an ended job, by run id, as far as it is known.

        ``None`` without accounting.
        """

    def step(self, run_id: str) -> Sequence[str]:
        """Return the command prefix of a run's supervisor, on the host of the job."""

    def why_lost(self, log: str) -> str | None:
        """Return why a step ended with its supervisor, from the supervisor's log; ``None`` if the log has no reason."""

    def visible(self, gpus: Sequence[Gpu]) -> tuple[Sequence[Gpu], Sequence[str]]:
        """Return the host's GPUs that are allocated to the job, whole or in part, and the UUIDs of its MIG instances."""

    def restarted(self) -> str | None:
        """Return why this job was restarted, on its host; ``None`` at its first start."""
