"""MLflow runs of a workload: created at the start, completed at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hypergauge.scheduler.active import ActiveRun
from hypergauge.scheduler.events import Event, label
from hypergauge.scheduler.parallel import each
from hypergauge.scheduler.provenance.page_cache import cache_tags
from hypergauge.scheduler.tracking.delivery import deliver, deliver_recorded
from hypergauge.scheduler.tracking.run_creation import RunCreation, RunRequest
from hypergauge.scheduler.tracking.tracking import OWN_TAG, Tracking
from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["TrackedRuns"]

# Longest wait for MLflow at the end of runs.
_CREATION_SECONDS = 10.0


class TrackedRuns:
    """MLflow runs of a workload. A slow MLflow delays no run for long.

    Parameters
    ----------
    tracking
        Tracking server; without one, only the database gets the results of runs.
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
        self._creation = RunCreation(tracking)
        self._answers = True

    def create(self, session: Session, starting: Sequence[ActiveRun], run_before: Collection[int]) -> None:
        """Create the MLflow runs of runs that are about to start. A run starts without one if MLflow is slow.

        Parameters
        ----------
        run_before
            Positions that have run on this host since its last boot.
        """
        if self._tracking is None:
            return
        if not self._creation.create([self._request(active, run_before) for active in starting]):
            why = self._creation.problem or "MLflow is slow"
            message = f"{why}; the runs continue, and MLflow gets them later"
            self._report(Event("warning", f"{self._experiment}/{self._workload}", message=message))
        for notice in self._tracking.take_notices():
            self._report(Event("warning", f"{self._experiment}/{self._workload}", message=notice))
        self.note(session, starting)

    def variables(self, active: ActiveRun) -> dict[str, str]:
        """Return the variables with which a run's command logs to its MLflow run."""
        if self._tracking is None:
            return {}
        command = active.job.command
        return self._tracking.variables(
            active.folder.run_id, active.mlflow_run_id, self._experiment_name, command.words, command.directory
        )

    def note(self, session: Session, active_runs: Sequence[ActiveRun]) -> None:
        """Store the ids of MLflow runs that have been created meanwhile."""
        for active in active_runs:
            mlflow_run_id = self._creation.created.get(active.folder.run_id)
            if active.mlflow_run_id is None and mlflow_run_id is not None:
                active.mlflow_run_id = mlflow_run_id
                session(runs.set_mlflow_run, active.folder.run_id, mlflow_run_id)

    def deliver(self, session: Session, active_runs: Sequence[ActiveRun]) -> None:
        """Deliver the results of the ended runs."""
        # Delivery would create an MLflow run again while its creation is in progress.
        self._answers = self._creation.settled(_CREATION_SECONDS)
        self.note(session, active_runs)
        left = [active for active in active_runs if active.end is not None and not active.folder.delivered]
        if len(left) == 1:
            self._deliver(session, left[0])
        else:
            each(self._deliver_in_own_session, left)

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

    def _deliver_in_own_session(self, active: ActiveRun) -> None:
        with Session(self._database) as session:
            self._deliver(session, active)

    def _deliver(self, session: Session, active: ActiveRun) -> None:
        """Deliver the results of a run; if MLflow does not answer, send it no further requests."""
        assert active.end is not None
        said: list[str] = []
        if self._answers:
            delivered = session(deliver, active.folder, self._tracking, active.mlflow_run_id, active.end, said.append)
        else:
            session(deliver_recorded, active.folder, said.append)
            delivered = False
            said.append("MLflow does not answer")
        if not delivered:
            self._answers = self._answers and self._tracking is not None and self._tracking.answers(_CREATION_SECONDS)
            then = "tries again to deliver" if self._answers else "delivers"
            said[-1] += f"; the next schedule of this experiment {then} the run"
        for message in said:
            self._report(Event("warning", label(self._experiment, self._workload, active.job), message=message))
