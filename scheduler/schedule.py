"""Schedule of a file's workloads, one after another, and of a single command."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu import Gpu, Inventory
from hypergauge.scheduler.devices.devices import Devices
from hypergauge.scheduler.events import Event, Outcome
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.launch.commands import make_environments
from hypergauge.scheduler.plan.cooldown import Cooldown
from hypergauge.scheduler.plan.file_turns import FileTurns, WriteBack, claim, planned, writer
from hypergauge.scheduler.plan.plan import Action, PlannedRun, PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.plan.repetition import turns
from hypergauge.scheduler.plan.retries import run_with_retries
from hypergauge.scheduler.provenance.manifest import Recorder, differences
from hypergauge.scheduler.provenance.repeated_run import RepeatedRun
from hypergauge.scheduler.supervision import end_lost_run, is_supervised, was_seen
from hypergauge.scheduler.tracking.delivery import deliver, deliver_leftovers
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.scheduler.workload import Workload
from hypergauge.sql.queries.newest import newest_figures
from hypergauge.sql.runs import experiments, jobs, runs
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["Scheduler"]

Report = Callable[[Event], None]


@dataclass(frozen=True)
class Scheduler:
    """Runs workloads on this host."""

    database: Database
    settings: Settings
    tracking: Tracking | None
    inventory: Inventory
    report: Report
    policy: Policy = field(default_factory=Policy)

    @cached_property
    def devices(self) -> Devices:
        """Devices that are provisioned for runs on this host."""
        return Devices(self.settings)

    @cached_property
    def recorder(self) -> Recorder:
        """Recorder of manifests."""
        return Recorder(self.settings.home, self.inventory)

    def run_file(self, file: ExperimentFile, *, rerun: str | None = None, into: bool = False) -> list[Outcome]:
        """Run every row that is still to do, workload by workload, and return how each ended, in each repetition."""
        with self._session() as session:
            for experiment in claim(session, file, into=into):
                self._deliver_what_was_left(session, experiment)
            workloads = [workload for workload in session(planned, file, rerun) if workload.due]
            due = (run.row for workload in workloads for run in workload.runs if run.action is not Action.SKIP)
            make_environments(file, due, lambda message: self.report(Event("note", "", message=message)))
            write_back = writer(file, self.report)
            opened = partial(self._workload, file.path.stem, write_back)
            file_turns = FileTurns(file, self.policy, self.inventory, self.report, write_back, self._resume, opened)
            outcomes: list[Outcome] = []
            cooldown = self._cooldown(session)
            for turn in turns(workloads, self.policy.repeat):
                if file_turns.is_asked_to_end(session, turn):
                    continue
                found = file_turns.sort_out(session, turn)
                self._remove_what_was_left(session)
                if cooldown is not None and found.start and not found.attach:
                    cooldown.before_workload(
                        _gpus(found.start), self._gpus_of(workloads), partial(self._note, turn.label)
                    )
                done = file_turns.run(session, turn, found)
                outcomes += done
                if file_turns.is_over(turn, done):
                    break
            file_turns.check()
        return outcomes

    def run_command(self, job: Job, *, waits: bool = True) -> Outcome:
        """Run one command, as a workload of its own in the experiment of the command line.

        Where nobody `waits`, its supervisor delivers what it leaves, and what earlier ones have.
        """
        with self._session() as session:
            self._remove_what_was_left(session)
            experiment, workload = session(experiments.next_command_workload)
            if waits:
                self._deliver_what_was_left(session, experiment)
        command = PlannedWorkload(experiment, workload, ())
        opened = self._workload("bench run", lambda _: None, command, self.policy, None)
        opened.delivers = waits
        [outcome] = opened.run([job])
        return outcome

    def run_again(self, recorded: RepeatedRun, job: Job, experiment: int, workload: int) -> list[Outcome]:
        """Run what a run was once more, as its next attempt; say in what it differs from then."""
        again = PlannedWorkload(experiment, workload, ())
        name = Path(recorded.content["asked"].get("file", "bench run")).stem
        with self._session() as session:
            if experiment == experiments.COMMAND_EXPERIMENT:
                session.lock(partial(experiments.lock_command, workload=workload))
            else:
                session.lock(partial(experiments.lock_experiment, experiment=experiment))
            known = session(runs.known_runs, experiment)  # anew: another command may have repeated it meanwhile
            there = [one.attempt for one in known if (one.workload, one.position) == (workload, job.position)]
            job = replace(job, attempt=max(there, default=0) + 1)
            self._remove_what_was_left(session)
            for difference in differences(recorded.files, self.recorder.begin([job]).files(job)):
                self._say(recorded.label, difference)
            opened = partial(self._workload, name, lambda _: None, again)
            return run_with_retries(self.policy, opened, [job], [], partial(self._say, recorded.label))

    def _session(self) -> Session:
        return Session(self.database, say=partial(self._say, ""))

    def _cooldown(self, session: Session) -> Cooldown | None:
        if self.policy.cooldown is None:
            return None
        host = platform.node()
        return Cooldown(self.policy.cooldown, lambda gpus: session(newest_figures, host, gpus, time.time()))

    def _gpus_of(self, workloads: Iterable[PlannedWorkload]) -> list[Gpu]:
        words = dict.fromkeys(word for one in workloads for run in one.runs for word in run.row.devices)
        return list(dict.fromkeys(self.inventory.find(word) for word in words))

    def _note(self, label: str, message: str) -> None:
        self.report(Event("note", label, message=message))

    def _say(self, label: str, message: str) -> None:
        self.report(Event("warning", label, message=message))

    def _workload(
        self, name: str, write_back: WriteBack, workload: PlannedWorkload, policy: Policy, began: float | None
    ) -> Workload:
        return Workload(
            database=self.database,
            settings=self.settings,
            tracking=self.tracking,
            devices=self.devices,
            recorder=self.recorder,
            experiment=workload.experiment,
            experiment_name=f"{workload.experiment} {name}",
            workload=workload.workload,
            report=self.report,
            write_back=write_back,
            policy=policy,
            began=began,
        )

    def _deliver_what_was_left(self, session: Session, experiment: int) -> None:
        """Deliver what an earlier command could not, since the tracking server was away."""
        session(deliver_leftovers, self.settings.runs_dir, experiment, self.tracking)

    def _remove_what_was_left(self, session: Session) -> None:
        """Remove what a scheduler that died has made, where its runs are over."""
        for problem in self.devices.clear(session):
            self.report(Event("warning", "", message=problem))

    def _resume(self, session: Session, run: PlannedRun) -> str | None:
        """Return the status of a run to attach to (``running``) or that has ended; end one that nobody supervises."""
        previous = run.previous
        assert previous is not None
        folder = RunFolder(self.settings.runs_dir / previous.run_id)
        # Whether it is supervised is asked first: one that ends in between has written its end by now.
        if is_supervised(folder) or ((end := folder.end()) is not None and was_seen(end)):
            return "running"
        if not folder.path.exists():
            if previous.status not in ("pending", "running"):
                return previous.status
            if (row := session(jobs.find_job, previous.run_id)) is not None:
                what = f"{row.executor}'s job {row.native_id or row.job}"
                raise BadRequest(
                    f"run {previous.run_id[:8]} is in {what}; schedule the file with --executor {row.executor}"
                )
            if (host := session(runs.host_of, previous.run_id)) != platform.node():
                raise BadRequest(f"run {previous.run_id[:8]} goes on at host {host}; schedule the file there")
        end = session(end_lost_run, folder)
        if folder.path.exists():
            session(deliver, folder, self.tracking, previous.mlflow_run_id, end)
        label = f"{run.row.experiment}/{previous.workload}/{run.position}@{previous.attempt}"
        self.report(Event("lost", label, previous.run_id, run.row.name, end.status, end.reason or ""))
        return None


def _gpus(jobs: Sequence[Job]) -> list[Gpu]:
    return list(dict.fromkeys(gpu for job in jobs for gpu in job.devices or ()))
