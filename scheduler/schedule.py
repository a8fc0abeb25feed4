"""Schedule of an experiment file: one loop over its workloads, on any executor."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from hypergauge.core.errors import ScheduleEnded
from hypergauge.scheduler.events import Event, Outcome
from hypergauge.scheduler.executors.base import Executor, WorkloadFile
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.job import Job, job_from_row
from hypergauge.scheduler.launch.commands import make_environments
from hypergauge.scheduler.plan.file_plan import planned, take_experiments, writer
from hypergauge.scheduler.plan.iterations import Iteration, JobsToRun, iterations, next_attempts
from hypergauge.scheduler.plan.plan import Action
from hypergauge.scheduler.plan.policy import FAILURES, Policy
from hypergauge.scheduler.plan.retries import run_with_retries
from hypergauge.sql.runs import experiments
from hypergauge.sql.server.session import Session

__all__ = ["run_file"]


def run_file(
    executor: Executor,
    file: ExperimentFile,
    policy: Policy | None = None,
    *,
    rerun: str | None = None,
    into: bool = False,
) -> list[Outcome]:
    """Run the due rows of a file; return the outcomes of all repetitions.

    Parameters
    ----------
    rerun
        ``failed`` repeats unsuccessful runs too, ``all`` every run.
    into
        Whether the file may add to the experiment of another file.

    Raises
    ------
    ScheduleEnded
        A user asked an experiment to end.
    """
    policy = policy or Policy()
    with Session(
        executor.database, notify=lambda message: executor.report(Event("warning", "", message=message))
    ) as session:
        for experiment in take_experiments(session, file, into=into):
            executor.recover(session, experiment)
        workloads = [workload for workload in session(planned, file, rerun) if workload.due]
        due = (run.row for workload in workloads for run in workload.runs if run.action is not Action.SKIP)
        make_environments(file, due, lambda message: executor.report(Event("note", "", message=message)))
        executor.begin(session, workloads, policy)
        schedule = _Schedule(executor, file, policy, WorkloadFile(file.path, writer(file, executor.report)))
        outcomes = executor.run_all(session, list(iterations(workloads, policy.repeat)), schedule.run)
        schedule.check()
    return outcomes


@dataclass
class _Schedule:
    """Running schedule: jobs of later repetitions, and experiments that a user asked to end."""

    executor: Executor
    file: ExperimentFile
    policy: Policy
    target: WorkloadFile
    _later: dict[str, list[Job]] = field(default_factory=dict)
    _asked: dict[int, str] = field(default_factory=dict)

    def run(self, session: Session, iteration: Iteration) -> list[Outcome]:
        """Run one iteration with its retries; return the outcome of each job."""
        if self._is_asked_to_end(session, iteration):
            return []
        jobs = self._jobs(session, iteration)
        self.executor.prepare(session, iteration, jobs)
        done = run_with_retries(
            self.policy,
            partial(self.executor.open, iteration.workload, self.target),
            jobs.start,
            jobs.attach,
            partial(self._warn, iteration),
            why_not=lambda: session(experiments.asked_to_end, iteration.workload.experiment),
        )
        self._later[iteration.label] = next_attempts(done, jobs.settled)
        if self.policy.fail_fast and any(outcome.status in FAILURES for outcome in done):
            self._end(iteration)
        return done

    def check(self) -> None:
        """Raise ScheduleEnded if a user asked an experiment to end and iterations were left out."""
        if self._asked:
            raise ScheduleEnded("; ".join(f"experiment {one}: {reason}" for one, reason in self._asked.items()))

    def _jobs(self, session: Session, iteration: Iteration) -> JobsToRun:
        if iteration.repetition > 1:
            return JobsToRun(self._later.get(iteration.label, []))
        jobs = JobsToRun()
        for run in iteration.workload.runs:
            if run.action is Action.SKIP:
                continue
            job = job_from_row(
                self.file,
                run.row,
                self.executor.inventory,
                position=run.position,
                attempt=run.attempt,
                previous=run.previous,
            )
            if run.action is Action.RESUME and (status := self.executor.resume(session, run)):
                assert run.previous is not None
                if status == "running":
                    jobs.attach.append(job)
                else:
                    self.target.write_back({run.row.line: (status, run.previous.run_id)})
                    jobs.settled.append(job)
            else:
                jobs.start.append(job)
        return jobs

    def _is_asked_to_end(self, session: Session, iteration: Iteration) -> bool:
        """Return whether a user asked the experiment to end; its rows that have not begun become ``stopped``."""
        reason = session(experiments.asked_to_end, iteration.workload.experiment)
        if reason is None:
            return False
        self._asked[iteration.workload.experiment] = reason
        if iteration.repetition == 1:
            due = [run.row for run in iteration.workload.runs if run.action is not Action.SKIP]
            self.target.write_back({row.line: ("stopped", row.run) for row in due})
        return True

    def _end(self, iteration: Iteration) -> None:
        """End the schedule after a failure, if iterations are left."""
        if iteration.left:
            left = "workload is" if iteration.left == 1 else f"{iteration.left} workloads are"
            self._warn(iteration, f"a run failed: the remaining {left} not started")
            self.executor.stopping.failed.set()

    def _warn(self, iteration: Iteration, message: str) -> None:
        self.executor.report(Event("warning", iteration.label, message=message))
