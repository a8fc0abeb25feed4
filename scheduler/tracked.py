"""MLflow runs of a workload: created at the start, completed at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hypergauge.scheduler.active import ActiveRun
from hypergauge.scheduler.events import Event, label
from hypergauge.scheduler.parallel import each
from hypergauge.scheduler.provenance.page_cache import cache_tags
from hypergauge.scheduler.tracking.delivery import deliver, deliver_spans
from hypergauge.scheduler.tracking.run_creation import RunCreation, RunRequest
from hypergauge.scheduler.tracking.tracking import OWN_TAG, Tracking
from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["TrackedRuns"]

# How long the end of runs waits for those that MLflow is still opening.
_OPENING_SECONDS = 10.0


class TrackedRuns:
    """MLflow runs of a workload. MLflow delays no run for long.

    Parameters
    ----------
    tracking
        The server; without one, what runs have left goes to the database alone.
    report
        Called with each `Event`.
    """

    def __init__(
        self,
        database: Database,
        tracking: Tracking | None,
        experiment: int,
        experiment_name: str,
        workload: int,
        report: Callable[[Event], None],
    ) -> None:
        self._database, self._tracking, self._report = database, tracking, report
        self._experiment, self._experiment_name, self._workload = experiment, experiment_name, workload
        self._openings = RunCreation(tracking)
        self._answers = True

    def open(self, session: Session, starting: Sequence[ActiveRun], run_before: Collection[int]) -> None:
        """Open runs that are about to begin; those that this takes too long for begin without.

        Parameters
        ----------
        run_before
            Positions that have run on this host since it was started.
        """
        if self._tracking is None:
            return
        if not self._openings.open([self._request(active, run_before) for active in starting]):
            why = self._openings.problem or "MLflow is slow"
            message = f"{why}; the runs go on, and it gets theirs later"
            self._report(Event("warning", f"{self._experiment}/{self._workload}", message=message))
        self.note(session, starting)

    def variables(self, active: ActiveRun) -> dict[str, str]:
        """Return the variables with which a run's command logs to it."""
        if self._tracking is None:
            return {}
        command = active.job.command
        return self._tracking.variables(
            active.folder.run_id, active.mlflow_run_id, self._experiment_name, command.words, command.directory
        )

    def note(self, session: Session, active_runs: Sequence[ActiveRun]) -> None:
        """Record which of these runs are open by now."""
        for active in active_runs:
            opened = self._openings.opened.get(active.folder.run_id)
            if active.mlflow_run_id is None and opened is not None:
                active.mlflow_run_id = opened
                session(runs.set_mlflow_run, active.folder.run_id, opened)

    def deliver(self, session: Session, active_runs: Sequence[ActiveRun]) -> None:
        """Deliver what those of these runs have left that have ended."""
        # What is still being opened would be opened twice.
        self._answers = self._openings.settled(_OPENING_SECONDS)
        self.note(session, active_runs)
        left = [active for active in active_runs if active.end is not None and not active.folder.delivered]
        if len(left) == 1:
            self._deliver(session, left[0])
        else:
            each(self._deliver_beside, left)

    def _request(self, active: ActiveRun, run_before: Collection[int]) -> RunRequest:
        job, folder = active.job, active.folder
        tags = {
            OWN_TAG: f"{self._experiment}/{self._workload}/{job.position}@{job.attempt}",
            "hypergauge.command": job.shown_command,
            **cache_tags(job.position, run_before),
        }
        name = f"{label(self._experiment, self._workload, job)} {job.name}"
        request = RunRequest(folder.run_id, self._experiment_name, name, dict(job.params), tags)
        request.write(folder)
        return request

    def _deliver_beside(self, active: ActiveRun) -> None:
        with Session(self._database) as session:
            self._deliver(session, active)

    def _deliver(self, session: Session, active: ActiveRun) -> None:
        """Deliver what a run has left; where MLflow does not answer, it is not asked for the next one."""
        assert active.end is not None
        why = ["MLflow does not answer"]
        if not self._answers:
            session(deliver_spans, active.folder)
        elif session(deliver, active.folder, self._tracking, active.mlflow_run_id, active.end, why.append):
            return
        what = f"{why[-1]}; it gets the run when something of this experiment is scheduled again"
        self._report(Event("warning", label(self._experiment, self._workload, active.job), message=what))
        self._answers = self._answers and self._tracking is not None and self._tracking.answers(_OPENING_SECONDS)
