"""Monitor of a submitted job: reports its runs, stops them, and corrects their exits."""

from __future__ import annotations

import contextlib
import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hypergauge.core.errors import TrackingUnavailable
from hypergauge.scheduler.events import Event, Outcome, label
from hypergauge.scheduler.executors.base import BatchSystem, JobState, RunExit, Stopping
from hypergauge.scheduler.executors.batch.retry import Retry
from hypergauge.scheduler.executors.batch.run_exits import asked_by, exit_of, was_taken
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.supervision import unseen_end
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.runs import jobs, runs
from hypergauge.sql.runs.jobs import JobRow, JobRun
from hypergauge.sql.server.session import Session

__all__ = ["JobMonitor"]

# Interval of reading the runs in the database.
_LOOK_SECONDS = 0.5
# Shortest and longest interval of requests for the job's state; changes shorten it.
_SOON_SECONDS, _RARELY_SECONDS = 1.0, 15.0
# Longest wait for runs to stop, before their job is cancelled.
_STOP_SECONDS = 60.0
# Longest wait for the accounting of an ended job.
_ACCOUNTS_SECONDS = 5.0
_OPEN = ("pending", "running")


class JobMonitor:
    """Monitor of one job, from its submission or attachment to its end.

    Parameters
    ----------
    row
        The job, with a known id of the batch system.
    wanted
        Jobs of its runs.
    attached
        Whether another command submitted it.
    """

    def __init__(
        self,
        session: Session,
        system: BatchSystem,
        row: JobRow,
        wanted: Sequence[Job],
        *,
        experiment: int,
        workload: int,
        tracking: Tracking | None,
        report: Callable[[Event], None],
        write_back: Callable[[Mapping[int, tuple[str, str]]], None],
        stopping: Stopping,
        attached: bool,
    ) -> None:
        assert row.native_id is not None
        self._session, self._system, self._row, self._id = session, system, row, row.native_id
        self._wanted = {job.position: job for job in wanted}
        self._experiment, self._workload, self._tracking = experiment, workload, tracking
        self._report, self._write_back, self._stopping, self._attached = report, write_back, stopping, attached
        self._retry = Retry(self._warn, stopping)
        self._reported: dict[str, str] = {}
        self._state = JobState("pending")
        self._stop_asked: float | None = None
        self._cancelled = False

    def to_end(self) -> list[Outcome]:
        """Monitor the job; return the outcomes of its runs."""
        pause = _SOON_SECONDS
        query_at = 0.0
        while not self._is_over:
            if self._report_changes(self._runs()):
                pause = _SOON_SECONDS
                query_at = min(query_at, time.monotonic() + pause)
            if time.monotonic() >= query_at:
                self._query()
                pause = _SOON_SECONDS if self._all_ended() else min(1.5 * pause, _RARELY_SECONDS)
                query_at = time.monotonic() + pause
            self._stop_on_request()
            if not self._is_over:
                time.sleep(_LOOK_SECONDS)
        return self._finish()

    @property
    def _is_over(self) -> bool:
        return self._state.state == "ended"

    def _runs(self) -> list[JobRun]:
        """Return the latest attempts of the job's runs."""
        latest = {run.position: run for run in self._session(jobs.job_runs, self._row.job)}
        return [run for position, run in latest.items() if position in self._wanted]

    def _all_ended(self) -> bool:
        return all(run.status not in _OPEN for run in self._runs())

    def _query(self) -> None:
        """Request the state of the job, and report changes."""
        answers = self._retry.send(lambda: [self._system.look(self._id)])
        if answers is None:
            return
        unknown = RunExit("failed", f"{self._system.name} no longer knows its job {self._id}")
        state = answers[0] or JobState("ended", unknown.reason, run_exit=unknown)
        if (state.state, state.reason, state.host) != (self._state.state, self._state.reason, self._state.host):
            self._session(jobs.set_job, self._row.job, state.state, state.reason, state.host)
            if state.state == "pending" and state.reason:
                self._note(f"job {self._id} waits: {state.reason}")
            elif state.state == "running" and state.host:
                self._note(f"job {self._id} is on {state.host}")
        self._state = state

    def _stop_on_request(self) -> None:
        """If the schedule ends, stop the runs; cancel the job if they have not begun or do not stop."""
        if not self._stopping.asked.is_set():
            return
        open_runs = [run for run in self._runs() if run.status in _OPEN]
        if self._stop_asked is None:
            self._stop_asked = time.monotonic()
            self._session(jobs.ask_to_stop, [run.run_id for run in open_runs], asked_by(getpass.getuser()))
        late = time.monotonic() > self._stop_asked + _STOP_SECONDS
        waiting = self._state.state == "pending" and all(run.status == "pending" for run in open_runs)
        if (waiting or late or self._stopping.at_once.is_set()) and not self._cancelled:
            self._cancelled = self._retry.send(self._cancel) is True

    def _cancel(self) -> bool:
        self._system.cancel(self._id)
        return True

    def _finish(self) -> list[Outcome]:
        """Correct the exits of runs by the final state of the job; return the outcomes."""
        row = self._session(jobs.find_job, next(iter(self._runs())).run_id) if self._runs() else None
        for run in self._session(jobs.job_runs, self._row.job):
            if end := exit_of(run, self._state, row.failure if row else None):
                self._correct(run, end)
        self._take_accounts()
        self._session(jobs.end_job, self._row.job, self._state.reason, self._state.ended_at)
        latest = self._runs()
        self._report_changes(latest, final=True)
        return [Outcome(self._job(run), run.run_id, run.status) for run in latest]

    def _correct(self, run: JobRun, run_exit: RunExit) -> None:
        now = time.time()
        ended_at = run.ended_at or min(self._state.ended_at or now, now)
        end = unseen_end(run_exit.status, run.started_at or ended_at, ended_at, run_exit.reason)
        self._session(runs.end_run, run.run_id, replace(end, exit_code=run.exit_code))
        if self._tracking is None or run.mlflow_run_id is None:
            return
        tags = {"hypergauge.status": run_exit.status, "hypergauge.reason": run_exit.reason}
        with contextlib.suppress(TrackingUnavailable):
            found = self._tracking.runs_of(run.run_id)
            self._tracking.finish(found, run.mlflow_run_id, run_exit.status, ended_at, [], tags)

    def _take_accounts(self) -> None:
        """Store the batch system's accounting of the runs, which may arrive late."""
        begun = {run.run_id for run in self._session(jobs.job_runs, self._row.job) if run.started_at is not None}
        deadline = time.monotonic() + _ACCOUNTS_SECONDS
        while begun:
            accounts = self._retry.send(lambda: self._system.accounts(self._id))
            if accounts is None:
                return
            if begun <= accounts.keys() or time.monotonic() > deadline:
                self._session(jobs.record_accounts, accounts)
                return
            time.sleep(_LOOK_SECONDS)

    def _report_changes(self, latest: Sequence[JobRun], *, final: bool = False) -> bool:
        """Report runs that have begun or ended, and write their statuses back; return whether any have.

        An exit that the batch system may have caused waits for the `final` report, which knows the cause.
        """
        known = (run for run in latest if final or run.status in _OPEN or not was_taken(run))
        changed = [run for run in known if self._reported.get(run.run_id) != run.status]
        rows = {}
        for run in changed:
            before = self._reported.get(run.run_id)
            self._reported[run.run_id] = run.status
            if run.status == "running":
                self._event("attached" if self._attached and before is None else "started", run)
            elif run.status != "pending":
                self._event("ended", run)
            if (line := self._wanted[run.position].line) is not None:
                rows[line] = ("" if run.status == "pending" else run.status, run.run_id)
        if rows:
            self._write_back(rows)
        return bool(changed)

    def _job(self, run: JobRun) -> Job:
        return replace(self._wanted[run.position], attempt=run.attempt, run_id=None)

    def _event(self, kind: str, run: JobRun) -> None:
        seconds = run.ended_at - run.started_at if run.ended_at and run.started_at else 0.0
        name = label(self._experiment, self._workload, self._job(run))
        message = (run.reason or "") if kind == "ended" else ""
        self._report(Event(kind, name, run.run_id, run.name, run.status, message, seconds))

    def _note(self, message: str) -> None:
        self._report(Event("note", f"{self._experiment}/{self._workload}", message=message))

    def _warn(self, message: str) -> None:
        self._report(Event("warning", f"{self._experiment}/{self._workload}", message=message))
