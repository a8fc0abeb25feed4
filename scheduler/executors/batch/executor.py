"""Executor for batch systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory
from hypergauge.scheduler.events import Event, Outcome, Report
from hypergauge.scheduler.executors.base import LOCAL, BatchSystem, Stopping, WorkloadFile
from hypergauge.scheduler.executors.batch.concurrency import run_concurrently
from hypergauge.scheduler.executors.batch.job import RemoteWorkload, give_up
from hypergauge.scheduler.executors.batch.retry import Retry
from hypergauge.scheduler.executors.batch.submission_queue import SubmissionQueue
from hypergauge.scheduler.plan.iterations import Iteration, JobsToRun
from hypergauge.scheduler.plan.plan import PlannedRun, PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.runs import jobs, runs
from hypergauge.sql.runs.jobs import JobRow
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["BatchExecutor"]


@dataclass
class BatchExecutor:
    """Executor that submits each workload to a batch system as one job.

    Attributes
    ----------
    max_jobs
        Largest number of queued and running jobs.
    inventory
        ``None``: only the host of a job knows its GPUs.
    """

    database: Database
    settings: Settings
    tracking: Tracking | None
    system: BatchSystem
    report: Report
    max_jobs: int = 1
    inventory: Inventory | None = None
    stopping: Stopping = field(default_factory=Stopping)

    def __post_init__(self) -> None:
        self._queue = SubmissionQueue([], self.stopping)

    @property
    def name(self) -> str:
        """Name that ``--executor`` takes."""
        return self.system.name

    def recover(self, session: Session, experiment: int) -> None:
        """Do nothing: each job delivers its own results."""

    def begin(self, _session: Session, workloads: Sequence[PlannedWorkload], _policy: Policy) -> None:
        """Queue the workloads in the order of their file."""
        self._queue = SubmissionQueue([f"{one.experiment}/{one.workload}" for one in workloads], self.stopping)

    def run_all(
        self,
        _session: Session,
        iterations: Sequence[Iteration],
        run: Callable[[Session, Iteration], list[Outcome]],
    ) -> list[Outcome]:
        """Run up to `max_jobs` iterations at once, each with a session of its own."""

        def run_one(iteration: Iteration) -> list[Outcome]:
            try:
                with Session(self.database, notify=self._warn) as own:
                    return run(own, iteration)
            finally:
                self._queue.leave(iteration.label)

        return run_concurrently(iterations, self.max_jobs, run_one, self.stopping)

    def resume(self, session: Session, run: PlannedRun) -> str | None:
        """Return the status of an earlier run: ``running`` to attach to it, another if it ended, ``None`` to repeat it.

        Raises
        ------
        BadRequest
            The run is running without a batch system, or in another one.
        """
        previous = run.previous
        assert previous is not None
        row = session(jobs.find_job, previous.run_id)
        if row is None or row.executor != self.name:
            if previous.status not in ("pending", "running"):
                return previous.status
            name, host = (row.executor if row else LOCAL), session(runs.host_of, previous.run_id)
            raise BadRequest(
                f"run {previous.run_id[:8]} is running on host {host}; schedule the file with --executor {name}"
            )
        if row.state == "ended":
            return None if previous.status in ("pending", "running") else previous.status
        if row.native_id is None and not self._is_submitted(session, row):
            return None
        return "running"

    def prepare(self, session: Session, iteration: Iteration, jobs: JobsToRun) -> None:
        """Do nothing: the host of the job prepares its devices."""

    def open(
        self, workload: PlannedWorkload, file: WorkloadFile, policy: Policy, began: float | None
    ) -> RemoteWorkload:
        """Return the runner of a workload's jobs; `began` is its first release, in Unix seconds."""
        return RemoteWorkload(
            self.database, self.settings, self.tracking, self.system, self.report, self.stopping, self._queue,
            workload, file, policy, began,
        )  # fmt: skip

    def settle(self, run_ids: Sequence[str]) -> None:
        """Do nothing: each job has waited for its samples."""

    def _is_submitted(self, session: Session, row: JobRow) -> bool:
        """Return whether the batch system has a job whose id is unknown here; if not, end its runs."""
        native_id = Retry(self._warn, self.stopping).insist(lambda: self.system.find(row.job))
        if native_id is not None:
            session(jobs.submitted, row.job, native_id)
            return True
        give_up(session, row.job, f"it never reached {self.name}")
        return False

    def _warn(self, message: str) -> None:
        self.report(Event("warning", "", message=message))
