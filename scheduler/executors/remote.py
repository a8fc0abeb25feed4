"""Remote workloads: submitted as jobs, monitored, and attached to again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.scheduler.active import new_run
from hypergauge.scheduler.events import Event, Outcome
from hypergauge.scheduler.executors.base import Executor, Submission
from hypergauge.scheduler.executors.concurrency import Stopping
from hypergauge.scheduler.executors.job_monitor import JobMonitor
from hypergauge.scheduler.executors.order import OrderedRun, WorkloadOrder
from hypergauge.scheduler.executors.retry import Retry
from hypergauge.scheduler.executors.submission_queue import SubmissionQueue
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.plan import PlannedRun, PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.runs import experiments, jobs, runs
from hypergauge.sql.runs.jobs import JobRow
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["Remote", "RemoteWorkload", "give_up"]

Report = Callable[[Event], None]
WriteBack = Callable[[Mapping[int, tuple[str, str]]], None]


@dataclass(frozen=True)
class Remote:
    """Runs workloads through an executor.

    Attributes
    ----------
    file
        The experiment file that they come from.
    stopping
        Whether they are to end.
    line
        The order in which they are handed in.
    """

    database: Database
    settings: Settings
    tracking: Tracking | None
    executor: Executor
    report: Report
    stopping: Stopping
    line: SubmissionQueue

    def resume(self, session: Session, run: PlannedRun) -> str | None:
        """Return the status of a run to attach to (``running``) or that has ended; ``None`` where it is to be repeated.

        Raises
        ------
        BadRequest
            It goes on without an executor, or with another.
        """
        previous = run.previous
        assert previous is not None
        row = session(jobs.find_job, previous.run_id)
        if row is None or row.executor != self.executor.name:
            if previous.status not in ("pending", "running"):
                return previous.status
            name, host = (row.executor if row else "local"), session(runs.host_of, previous.run_id)
            raise BadRequest(
                f"run {previous.run_id[:8]} goes on at host {host}; schedule the file with --executor {name}"
            )
        if row.state == "ended":
            return None if previous.status in ("pending", "running") else previous.status
        if row.native_id is None and not self._found(session, row):
            return None
        return "running"

    def open(
        self,
        name: str,
        file: Path,
        write_back: WriteBack,
        planned: PlannedWorkload,
        policy: Policy,
        began: float | None,
    ) -> RemoteWorkload:
        """Return what runs a workload once."""
        return RemoteWorkload(self, planned, name, file, write_back, policy, began)

    def patience(self, label: str) -> Retry:
        """Return what asks the executor on behalf of a workload."""
        return Retry(lambda message: self.report(Event("warning", label, message=message)), self.stopping)

    def _found(self, session: Session, row: JobRow) -> bool:
        """Return whether a job was handed in whose id nobody has heard; else its runs are given up, whatever comes late."""
        native_id = self.patience("").insist(lambda: self.executor.find(row.job))
        if native_id is not None:
            session(jobs.submitted, row.job, native_id)
            return True
        give_up(session, row.job, f"it never reached {self.executor.name}")
        return False


@dataclass
class RemoteWorkload:
    """Runs the jobs of one workload as one job of an executor."""

    remote: Remote
    planned: PlannedWorkload
    name: str
    file: Path
    write_back: WriteBack
    policy: Policy
    began: float | None

    def run(self, jobs_to_run: Sequence[Job], attached: Sequence[Job] = ()) -> list[Outcome]:
        """Follow the `attached` runs to their ends, then hand the others in and follow those; return how each ended."""
        outcomes: list[Outcome] = []
        line, label = self.remote.line, f"{self.planned.experiment}/{self.planned.workload}"
        with Session(self.remote.database, say=self._say) as session:
            if attached:
                line.leave(label)
            for row, there in _by_job(session, attached).items():
                outcomes += self._follow(session, row, there, attached=True)
            line.wait(label)
            if jobs_to_run and not self.remote.stopping.asked.is_set():
                row = self._hand_in(session, jobs_to_run)
                line.leave(label)
                outcomes += self._follow(session, row, jobs_to_run, attached=False)
        return outcomes

    def _follow(self, session: Session, row: JobRow, there: Sequence[Job], *, attached: bool) -> list[Outcome]:
        remote = self.remote
        outcomes = JobMonitor(
            session, remote.executor, row, there,
            experiment=self.planned.experiment, workload=self.planned.workload, tracking=remote.tracking,
            report=remote.report, write_back=self.write_back, stopping=remote.stopping, attached=attached,
        ).to_end()  # fmt: skip
        begun = [run.started_at for run in session(jobs.job_runs, row.job) if run.started_at is not None]
        self.began = min([*begun, *([self.began] if self.began else [])], default=None)
        return outcomes

    def _hand_in(self, session: Session, wanted: Sequence[Job]) -> JobRow:
        """Record the runs as queued, and hand their job in; where that fails they are given up.

        Raises
        ------
        BadRequest
            The executor refuses it.
        GivenUp
            It was away until the schedule was stopped.
        """
        executor, planned = self.remote.executor, self.planned
        name = f"hypergauge-{uuid.uuid4().hex}"
        by_id = {uuid.uuid4().hex: job for job in wanted}
        workload_id = session(experiments.open_workload, planned.experiment, planned.workload)
        queued = [new_run(run_id, job, workload_id, "") for run_id, job in by_id.items()]
        session(jobs.record_job, name, executor.name, workload_id, queued)
        self.write_back({job.line: ("", run_id) for run_id, job in by_id.items() if job.line is not None})
        try:
            native_id = self._submit(self._submission(name, by_id))
        except BenchError as error:
            give_up(session, name, str(error))
            raise
        session(jobs.submitted, name, native_id)
        label = f"{planned.experiment}/{planned.workload}"
        self.remote.report(Event("note", label, message=f"is job {native_id} of {executor.name}"))
        return JobRow(name, executor.name, native_id, "pending", None, None, None)

    def _say(self, message: str) -> None:
        self.remote.report(Event("warning", f"{self.planned.experiment}/{self.planned.workload}", message=message))

    def _submit(self, submission: Submission) -> str:
        """Hand a job in once, also where it is not told whether it has arrived; return its id."""
        executor = self.remote.executor
        patience = self.remote.patience(f"{self.planned.experiment}/{self.planned.workload}")
        while (native_id := patience.ask(lambda: executor.submit(submission))) is None:
            if (there := patience.insist(lambda: executor.find(submission.name))) is not None:
                return there
        return native_id

    def _submission(self, name: str, by_id: Mapping[str, Job]) -> Submission:
        executor, planned, settings = self.remote.executor, self.planned, self.remote.settings
        order = WorkloadOrder(
            job=name,
            executor=executor.name,
            experiment=planned.experiment,
            workload=planned.workload,
            name=f"{planned.experiment} {self.name}",
            directory=str(Path.cwd()),
            file=str(self.file.absolute()),
            runs=[OrderedRun.of(run_id, job) for run_id, job in by_id.items()],
            policy=asdict(self.policy),
            began=self.began,
            interval=settings.interval,
            home=str(executor.home or settings.home),
        )
        return Submission(
            name=name,
            label=f"{planned.experiment}/{planned.workload} {self.name}",
            request=executor.request([job.row for job in by_id.values() if job.row is not None]),
            script=order.script(executor.python),
            environment=settings.environment(),
            directory=Path.cwd(),
        )


def give_up(session: Session, job: str, reason: str) -> None:
    """End a job that was never handed in, and its runs: should it come all the same, it finds nothing to do."""
    session(jobs.withdraw, job, reason)
    session(jobs.end_job, job, reason, None)


def _by_job(session: Session, attached: Sequence[Job]) -> dict[JobRow, list[Job]]:
    """Return the runs to attach to, by their jobs."""
    found: dict[JobRow, list[Job]] = {}
    for job in attached:
        assert job.previous is not None
        row = session(jobs.find_job, job.previous.run_id)
        assert row is not None
        found.setdefault(row, []).append(job)
    return found
