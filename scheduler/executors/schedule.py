"""Schedule through an executor: a file's workloads as jobs, with a limit on concurrent ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.scheduler.events import Event, Outcome
from hypergauge.scheduler.executors.base import Executor
from hypergauge.scheduler.executors.concurrency import Stopping, run_concurrently
from hypergauge.scheduler.executors.remote import Remote
from hypergauge.scheduler.executors.retry import Retry
from hypergauge.scheduler.executors.submission_queue import SubmissionQueue
from hypergauge.scheduler.experiment.csv_text import Problem
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile, Row
from hypergauge.scheduler.launch.commands import make_environments
from hypergauge.scheduler.plan.file_turns import FileTurns, Report, claim, planned, writer
from hypergauge.scheduler.plan.plan import Action, PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.plan.repetition import Turn, turns
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["RemoteScheduler", "refuse_rows", "refuse_workloads"]


@dataclass(frozen=True)
class RemoteScheduler:
    """Runs the workloads of files through an executor.

    Attributes
    ----------
    max_jobs
        How many jobs are queued or running at once.
    """

    database: Database
    settings: Settings
    tracking: Tracking | None
    executor: Executor
    report: Report
    policy: Policy = field(default_factory=Policy)
    max_jobs: int = 1

    def run_file(self, file: ExperimentFile, *, rerun: str | None = None, into: bool = False) -> list[Outcome]:
        """Run every row that is still to do, and return how each ended, in each repetition."""
        stopping = Stopping()
        with Session(self.database, say=self._say) as session:
            claim(session, file, into=into)
            workloads = [workload for workload in session(planned, file, rerun) if workload.due]
            due = (run.row for workload in workloads for run in workload.runs if run.action is not Action.SKIP)
            make_environments(file, due, lambda message: self.report(Event("note", "", message=message)))
            write_back = writer(file, self.report)
            line = SubmissionQueue([f"{workload.experiment}/{workload.workload}" for workload in workloads], stopping)
            remote = Remote(self.database, self.settings, self.tracking, self.executor, self.report, stopping, line)
            opened = partial(remote.open, file.path.stem, file.path, write_back)
            file_turns = FileTurns(file, self.policy, None, self.report, write_back, remote.resume, opened)

            def run(turn: Turn) -> list[Outcome]:
                try:
                    with Session(self.database, say=self._say) as own:
                        if file_turns.is_asked_to_end(own, turn):
                            return []
                        done = file_turns.run(own, turn, file_turns.sort_out(own, turn))
                finally:
                    line.leave(turn.label)
                if file_turns.is_over(turn, done):
                    stopping.failed.set()
                return done

            outcomes = run_concurrently(list(turns(workloads, self.policy.repeat)), self.max_jobs, run, stopping)
            file_turns.check()
            return outcomes

    def _say(self, message: str) -> None:
        self.report(Event("warning", "", message=message))


def refuse_rows(executor: Executor, file: ExperimentFile) -> None:
    """Refuse a file with rows that the executor cannot take, without asking it.

    Raises
    ------
    BadExperimentFile
        With all that is wrong.
    """
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in file.rows:
        groups.setdefault((row.experiment, row.workload), []).append(row)
    problems = []
    for rows in groups.values():
        for row, column, message in executor.problems(rows):
            cell = row.cells[column]
            problems.append(Problem(cell.line, cell.column, f"{column}: {message}"))
    if problems:
        raise BadExperimentFile(file.path, problems)


def refuse_workloads(
    executor: Executor, file: ExperimentFile, workloads: Sequence[PlannedWorkload], patience: Retry
) -> None:
    """Refuse a file with a workload that no host of the executor will ever take, as soon as that answers.

    Raises
    ------
    BadExperimentFile
        With all of them.
    """
    problems = []
    for workload in workloads:
        rows = [run.row for run in workload.runs if run.action is Action.RUN]
        if not rows:
            continue
        request = executor.request(rows)
        if (why := patience.insist(partial(executor.check, request, Path.cwd()))) is not None:
            cell = rows[0].cells["Workload"]
            problems.append(Problem(cell.line, cell.column, f"Workload: {why}"))
    if problems:
        raise BadExperimentFile(file.path, problems)
