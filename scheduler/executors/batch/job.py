"""Remote workload: its job's submission to a batch system, monitoring and reattachment."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.core.selectors import new_run_id
from hypergauge.scheduler.active import new_run
from hypergauge.scheduler.events import Event, Outcome, Report
from hypergauge.scheduler.executors.base import BatchSystem, Stopping, Submission, WorkloadFile
from hypergauge.scheduler.executors.batch.job_monitor import JobMonitor
from hypergauge.scheduler.executors.batch.order import OrderedRun, WorkloadOrder
from hypergauge.scheduler.executors.batch.retry import Retry
from hypergauge.scheduler.executors.batch.submission_queue import SubmissionQueue
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.plan import PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.runs import experiments, jobs
from hypergauge.sql.runs.jobs import JobRow
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["RemoteWorkload", "give_up"]


@dataclass
class RemoteWorkload:
    """Runner of the jobs of one workload, as one job of a batch system.

    Attributes
    ----------
    queue
        Order in which the workloads of the schedule are submitted.
    began
        First release of the workload, in Unix seconds.
    """

    database: Database
    settings: Settings
    tracking: Tracking | None
    system: BatchSystem
    report: Report
    stopping: Stopping
    queue: SubmissionQueue
    planned: PlannedWorkload
    file: WorkloadFile
    policy: Policy
    began: float | None

    @property
    def label(self) -> str:
        """Selector of the workload: ``20/1``."""
        return f"{self.planned.experiment}/{self.planned.workload}"

    def run(self, jobs_to_run: Sequence[Job], attached: Sequence[Job] = ()) -> list[Outcome]:
        """Monitor the `attached` runs to their ends, then submit and monitor `jobs_to_run`; return all outcomes."""
        outcomes: list[Outcome] = []
        with Session(self.database, notify=self._warn) as session:
            if attached:
                self.queue.leave(self.label)
            for row, found in _by_job(session, attached).items():
                outcomes += self._monitor(session, row, found, attached=True)
            self.queue.wait(self.label)
            if jobs_to_run and not self.stopping.asked.is_set():
                row = self._submit(session, jobs_to_run)
                self.queue.leave(self.label)
                outcomes += self._monitor(session, row, jobs_to_run, attached=False)
        return outcomes

    def _monitor(self, session: Session, row: JobRow, wanted: Sequence[Job], *, attached: bool) -> list[Outcome]:
        outcomes = JobMonitor(
            session, self.system, row, wanted,
            experiment=self.planned.experiment, workload=self.planned.workload, tracking=self.tracking,
            report=self.report, write_back=self.file.write_back, stopping=self.stopping, attached=attached,
        ).to_end()  # fmt: skip
        begun = [run.started_at for run in session(jobs.job_runs, row.job) if run.started_at is not None]
        self.began = min([*begun, *([self.began] if self.began else [])], default=None)
        return outcomes

    def _submit(self, session: Session, wanted: Sequence[Job]) -> JobRow:
        """Record the runs as queued, and submit their job; end the runs if that fails.

        Raises
        ------
        BadRequest
            The batch system refuses the job.
        GivenUp
            The batch system was away until the schedule was stopped.
        """
        name = f"hypergauge-{uuid.uuid4().hex}"
        by_id = {new_run_id(): job for job in wanted}
        workload_id = session(experiments.open_workload, self.planned.experiment, self.planned.workload)
        queued = [new_run(run_id, job, workload_id, "") for run_id, job in by_id.items()]
        session(jobs.record_job, name, self.system.name, workload_id, queued)
        self.file.write_back({job.line: ("", run_id) for run_id, job in by_id.items() if job.line is not None})
        try:
            native_id = self._submit_once(self._submission(name, by_id))
        except BenchError as error:
            give_up(session, name, str(error))
            raise
        session(jobs.submitted, name, native_id)
        self.report(Event("note", self.label, message=f"is job {native_id} of {self.system.name}"))
        return JobRow(name, self.system.name, native_id, "pending", None, None, None)

    def _submit_once(self, submission: Submission) -> str:
        """Submit a job exactly once, even if the answer is lost; return its id."""
        retry = Retry(self._warn, self.stopping)
        while (native_id := retry.send(lambda: self.system.submit(submission))) is None:
            if (found := retry.insist(lambda: self.system.find(submission.name))) is not None:
                return found
        return native_id

    def _submission(self, name: str, by_id: Mapping[str, Job]) -> Submission:
        planned, system, stem = self.planned, self.system, self.file.path.stem
        order = WorkloadOrder(
            job=name,
            executor=system.name,
            experiment=planned.experiment,
            workload=planned.workload,
            name=f"{planned.experiment} {stem}",
            directory=str(Path.cwd()),
            file=str(self.file.path.absolute()),
            runs=[OrderedRun.of(run_id, job) for run_id, job in by_id.items()],
            policy=asdict(self.policy),
            began=self.began,
            interval=self.settings.interval,
            home=str(system.home or self.settings.home),
        )
        return Submission(
            name=name,
            label=f"{self.label} {stem}",
            request=system.request([job.row for job in by_id.values() if job.row is not None]),
            script=order.script(system.python),
            environment=self.settings.environment(),
            directory=Path.cwd(),
        )

    def _warn(self, message: str) -> None:
        self.report(Event("warning", self.label, message=message))


def give_up(session: Session, job: str, reason: str) -> None:
    """End the runs of a job that was never submitted. If it starts all the same, it finds no runs."""
    session(jobs.withdraw, job, reason)
    session(jobs.end_job, job, reason, None)


def _by_job(session: Session, attached: Sequence[Job]) -> dict[JobRow, list[Job]]:
    """Return the runs to attach to, by job."""
    found: dict[JobRow, list[Job]] = {}
    for job in attached:
        assert job.previous is not None
        row = session(jobs.find_job, job.previous.run_id)
        assert row is not None
        found.setdefault(row, []).append(job)
    return found
