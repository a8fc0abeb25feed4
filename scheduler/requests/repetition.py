"""Repetition of an earlier run: its next attempt, in the workload of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu import Inventory
from hypergauge.scheduler.events import Outcome
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.checks import Reactions
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.provenance.repeated_run import RepeatedRun
from hypergauge.scheduler.requests.single_run import repeat_run
from hypergauge.sql.runs.runs import KnownRun, known_runs
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Repetition"]


@dataclass(frozen=True, slots=True)
class Repetition:
    """Next attempt of an earlier run.

    Attributes
    ----------
    earlier, previous
        The run, from its manifest and from the database.
    attempt
        Number of the attempt, if no other command adds one first.
    others
        Number of the other runs of the workload, which are not repeated.
    """

    earlier: RepeatedRun
    previous: KnownRun
    experiment: int
    attempt: int
    others: int

    @classmethod
    def of(cls, connection: Connection, settings: Settings, run: RunInfo) -> Repetition:
        """Return the repetition of a run.

        Raises
        ------
        BadRequest
            The run's manifest is not on this host.
        """
        workload = [one for one in known_runs(connection, run.experiment_id) if one.workload == run.workload]
        [previous] = [one for one in workload if one.run_id == run.run_id]
        return cls(
            earlier=RepeatedRun.read(run.label, RunFolder(settings.runs_dir / run.run_id), run.host),
            previous=previous,
            experiment=run.experiment_id,
            attempt=max(one.attempt for one in workload if one.position == run.position) + 1,
            others=len({one.position for one in workload}) - 1,
        )

    def job(self, inventory: Inventory, exporters: Mapping[str, str | None], reactions: Reactions) -> Job:
        """Return the job; see `hypergauge.scheduler.provenance.repeated_run.RepeatedRun.job`."""
        return self.earlier.job(inventory, exporters, self.previous, self.attempt, reactions)

    def run(self, executor: LocalExecutor, job: Job, policy: Policy) -> list[Outcome]:
        """Run the job; see `hypergauge.scheduler.requests.single_run.repeat_run`."""
        return repeat_run(executor, self.earlier, job, self.experiment, self.previous.workload, policy)
