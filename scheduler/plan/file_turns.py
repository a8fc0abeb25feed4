"""Iterations over a file's workloads: what to start in each, with retries and repetitions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hypergauge.core.errors import BadRequest, ScheduleEnded
from hypergauge.gpu import Inventory
from hypergauge.scheduler.events import Event, Outcome
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.job import Job, job_from_row
from hypergauge.scheduler.plan.plan import Action, PlannedRun, PlannedWorkload, plan
from hypergauge.scheduler.plan.policy import FAILURES, Policy
from hypergauge.scheduler.plan.repetition import Turn, next_attempts
from hypergauge.scheduler.plan.retries import Runner, run_with_retries
from hypergauge.sql.runs import experiments, file_workloads, runs
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.session import Session

__all__ = ["FileTurns", "Report", "Sorted", "WriteBack", "claim", "numbers", "planned", "writer"]

Report = Callable[[Event], None]
WriteBack = Callable[[Mapping[int, tuple[str, str]]], None]


def planned(connection: Connection, file: ExperimentFile, rerun: str | None) -> list[PlannedWorkload]:
    """Return the plan of a file, as things stand."""
    known = {experiment: runs.known_runs(connection, experiment) for experiment in _experiments(file)}
    return plan(file.rows, known, rerun=rerun, numbers=numbers(connection, file))


def numbers(connection: Connection, file: ExperimentFile) -> dict[int, dict[int, int]]:
    """Return the numbers that the workloads of a file have in each experiment, by those that stand in it."""
    found = {}
    for experiment in _experiments(file):
        rows = [row for row in file.rows if row.experiment == experiment]
        source = _source(connection, file, experiment)
        found[experiment] = file_workloads.workload_numbers(
            connection, experiment, source, [row.workload for row in rows]
        )
    return found


def claim(session: Session, file: ExperimentFile, *, into: bool) -> list[int]:
    """Make the experiments of a file its own, and keep other commands off for as long as the session lasts.

    Raises
    ------
    BadRequest
        One belongs to another file and `into` is not given, or is being scheduled.
    """
    ids, source = _experiments(file), str(file.path.resolve())
    for experiment in ids:
        session(experiments.claim_experiment, experiment, name=file.path.stem, source=source, into=into)
        session.lock(partial(experiments.lock_experiment, experiment=experiment))
        session(experiments.take_up, experiment)
        session(file_workloads.take_over, experiment, session(_source, file, experiment), source)
    for experiment, found in session(numbers, file).items():
        session(file_workloads.record, experiment, source, found)
    return ids


def _experiments(file: ExperimentFile) -> list[int]:
    return list(dict.fromkeys(row.experiment for row in file.rows))


def _source(connection: Connection, file: ExperimentFile, experiment: int) -> str:
    """Return the place under which the workloads of a file are known: its own, or that which it was moved from.

    It was moved where its rows name runs of a file that is no longer there; of one that is, it is a copy.
    """
    source = str(file.path.resolve())
    named = [row.run for row in file.rows if row.experiment == experiment and row.run]
    before = file_workloads.files_of_runs(connection, experiment, named)
    moved = source not in before and not any(Path(one).exists() for one in before)
    return before[0] if before and moved else source


def writer(file: ExperimentFile, report: Report) -> WriteBack:
    """Return what writes statuses back; several threads may."""
    turn = threading.Lock()

    def write_back(rows: Mapping[int, tuple[str, str]]) -> None:
        # An experiment does not end because somebody moved its file away; the database has all of it.
        try:
            with turn:
                missing = file.update(rows)
        except BadRequest as error:
            report(Event("warning", "", message=f"statuses were not written back: {error}"))
        else:
            for line in missing:
                report(Event("warning", "", message=f"the row of line {line} is no longer in the file"))

    return write_back


@dataclass(frozen=True, slots=True)
class Sorted:
    """The jobs of a turn: to start, to attach to, and the next attempts of rows whose runs have ended meanwhile."""

    start: list[Job] = field(default_factory=list)
    attach: list[Job] = field(default_factory=list)
    settled: list[Job] = field(default_factory=list)


@dataclass
class FileTurns:
    """Runs turns of a file.

    Attributes
    ----------
    inventory
        Where rows find their devices; ``None`` where that is for the host to say that runs them.
    resume
        Returns the status of a run to attach to (``running``) or that has ended; ``None`` where it is to be repeated.
    opened
        Returns what runs a workload once, for a policy and the moment at which it began, where it has.
    """

    file: ExperimentFile
    policy: Policy
    inventory: Inventory | None
    report: Report
    write_back: WriteBack
    resume: Callable[[Session, PlannedRun], str | None]
    opened: Callable[[PlannedWorkload, Policy, float | None], Runner]
    _again: dict[str, list[Job]] = field(default_factory=dict)
    _asked: dict[int, str] = field(default_factory=dict)

    def sort_out(self, session: Session, turn: Turn) -> Sorted:
        """Return the jobs of a turn."""
        if turn.repetition > 1:
            return Sorted(self._again.get(turn.label, []))
        found = Sorted()
        for run in turn.workload.runs:
            if run.action is Action.SKIP:
                continue
            job = job_from_row(
                self.file, run.row, self.inventory,
                position=run.position, attempt=run.attempt, previous=run.previous,
            )  # fmt: skip
            if run.action is Action.RESUME and (status := self.resume(session, run)):
                assert run.previous is not None
                if status == "running":
                    found.attach.append(job)
                else:
                    self.write_back({run.row.line: (status, run.previous.run_id)})
                    found.settled.append(job)
            else:
                found.start.append(job)
        return found

    def run(self, session: Session, turn: Turn, jobs: Sorted) -> list[Outcome]:
        """Run the jobs of a turn, and repeat those that fail; return how each ended."""
        opened = partial(self.opened, turn.workload)
        done = run_with_retries(
            self.policy, opened, jobs.start, jobs.attach, partial(self._say, turn),
            why_not=lambda: session(experiments.asked_to_end, turn.workload.experiment),
        )  # fmt: skip
        self._again[turn.label] = next_attempts(done, jobs.settled)
        return done

    def is_over(self, turn: Turn, done: list[Outcome]) -> bool:
        """Return whether no further turn is to begin, since a run has failed, and say so."""
        if not (turn.left and self.policy.fail_fast and any(outcome.status in FAILURES for outcome in done)):
            return False
        what = "1 workload that follows is" if turn.left == 1 else f"{turn.left} workloads that follow are"
        self._say(turn, f"a run failed, and the {what} not started")
        return True

    def is_asked_to_end(self, session: Session, turn: Turn) -> bool:
        """Return whether somebody has asked the experiment of a turn to end; rows that were not begun say so then."""
        reason = session(experiments.asked_to_end, turn.workload.experiment)
        if reason is None:
            return False
        self._asked[turn.workload.experiment] = reason
        if turn.repetition == 1:
            due = [run.row for run in turn.workload.runs if run.action is not Action.SKIP]
            self.write_back({row.line: ("stopped", row.run) for row in due})
        return True

    def check(self) -> None:
        """See that nobody has asked any of the experiments to end.

        Raises
        ------
        ScheduleEnded
            Somebody has, and turns were left out.
        """
        if self._asked:
            raise ScheduleEnded("; ".join(f"experiment {one}: {reason}" for one, reason in self._asked.items()))

    def _say(self, turn: Turn, message: str) -> None:
        self.report(Event("warning", turn.label, message=message))
