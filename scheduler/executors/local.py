"""Executor ``local``: workloads run on this host, one after another."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, GpuUnavailable
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.polling import wait_until
from hypergauge.gpu import Gpu, Inventory
from hypergauge.gpu.vendors import NVIDIA
from hypergauge.scheduler.devices.devices import Devices
from hypergauge.scheduler.events import Event, Outcome, Report
from hypergauge.scheduler.executors.base import LOCAL, Stopping, WorkloadFile
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.cooldown import Cooldown
from hypergauge.scheduler.plan.file_plan import WriteBack
from hypergauge.scheduler.plan.iterations import Iteration, JobsToRun
from hypergauge.scheduler.plan.plan import PlannedRun, PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.plan.quiet_host import QuietHost
from hypergauge.scheduler.provenance.manifest import ManifestWriter
from hypergauge.scheduler.supervision import end_lost_run, is_supervised, was_seen
from hypergauge.scheduler.tracking.delivery import deliver, deliver_backlog
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.scheduler.workload import Workload
from hypergauge.sql.queries.live import newest_values
from hypergauge.sql.queries.summaries import unsummarised
from hypergauge.sql.runs import jobs, runs
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["LocalExecutor"]

# Longest wait for the collector to write the last samples of runs.
_SETTLE_SECONDS = 10.0


@dataclass
class LocalExecutor:
    """Executor of workloads on this host.

    Attributes
    ----------
    tracking
        MLflow server; ``None`` to use the database alone.
    quiet_host
        Warning about other programs, or wait for their end; ``None`` for neither.
    """

    database: Database
    settings: Settings
    tracking: Tracking | None
    inventory: Inventory
    report: Report
    name: str = LOCAL
    stopping: Stopping = field(default_factory=Stopping)
    quiet_host: QuietHost | None = None
    _cooldown: Cooldown | None = None
    _gpus: list[Gpu] = field(default_factory=list)

    @cached_property
    def devices(self) -> Devices:
        """Devices that are provisioned for runs on this host."""
        return Devices(self.settings, vendors=self.inventory.vendors)

    @cached_property
    def manifest_writer(self) -> ManifestWriter:
        """Writer of run manifests."""
        return ManifestWriter(self.settings.home, self.inventory)

    def recover(self, session: Session, experiment: int) -> None:
        """Deliver an experiment's results that earlier commands could not, because the tracking server was away."""
        session(
            deliver_backlog, self.settings.runs_dir, experiment, self.tracking, partial(self._warn, str(experiment))
        )

    def begin(self, session: Session, workloads: Sequence[PlannedWorkload], policy: Policy) -> None:
        """Prepare the waits before workloads."""
        if self.quiet_host is not None:
            self.quiet_host.limit = policy.quiet_host
        if policy.cooldown is not None:
            host = platform.node()
            words = dict.fromkeys(word for one in workloads for run in one.runs for word in run.row.devices)
            self._gpus = list(dict.fromkeys(self.inventory.find(word) for word in words))
            self._cooldown = Cooldown(policy.cooldown, lambda gpus: session(newest_values, host, gpus, time.time()))

    def run_all(
        self,
        session: Session,
        iterations: Sequence[Iteration],
        run: Callable[[Session, Iteration], list[Outcome]],
    ) -> list[Outcome]:
        """Run the iterations in order; an interrupt ends the running workload and is raised again."""
        outcomes: list[Outcome] = []
        for iteration in iterations:
            if self.stopping.failed.is_set():
                break
            outcomes += run(session, iteration)
        return outcomes

    def resume(self, session: Session, run: PlannedRun) -> str | None:
        """Return the status of an earlier run: ``running`` to attach to it, another if it ended, ``None`` to repeat it.

        A run without a supervisor is ended first.
        """
        previous = run.previous
        assert previous is not None
        folder = RunFolder(self.settings.runs_dir / previous.run_id)
        # The supervisor first: it writes the end before it exits.
        if is_supervised(folder) or ((end := folder.end()) is not None and was_seen(end)):
            return "running"
        if not folder.path.exists():
            if previous.status not in ("pending", "running"):
                return previous.status
            self._require_here(session, previous.run_id)
        end = session(end_lost_run, folder)
        if folder.path.exists():
            session(deliver, folder, self.tracking, previous.mlflow_run_id, end)
        label = f"{run.row.experiment}/{previous.workload}/{run.position}@{previous.attempt}"
        self.report(Event("lost", label, previous.run_id, run.row.name, end.status, end.reason or ""))
        return None

    def prepare(self, session: Session, iteration: Iteration, jobs: JobsToRun) -> None:
        """Remove devices that dead schedulers left, and wait for the cooldown and a quiet host."""
        self.clear_devices(session)
        if jobs.start and not jobs.attach:
            if self._cooldown is not None:
                self._cooldown.before_workload(_gpus(jobs.start), self._gpus, partial(self._note, iteration.label))
            self.check_host(session, iteration.label, jobs.start)

    def check_host(self, session: Session, label: str, jobs: Iterable[Job]) -> None:
        """Warn that other programs use the host before a workload starts, or wait for their end."""
        if self.quiet_host is not None:
            self.quiet_host.before_workload(
                partial(self._other_programs, session, _gpus(jobs)),
                partial(self._note, label),
                partial(self._warn, label),
            )

    def open(self, workload: PlannedWorkload, file: WorkloadFile, policy: Policy, began: float | None) -> Workload:
        """Return the runner of a workload's jobs; `began` is its first release, in Unix seconds."""
        return self.workload(workload, file.path.stem, policy, began, file.write_back)

    def workload(
        self,
        planned: PlannedWorkload,
        name: str,
        policy: Policy,
        began: float | None = None,
        write_back: WriteBack = lambda _: None,
    ) -> Workload:
        """Return the runner of a workload's jobs; `name` is the readable name of its experiment."""
        return Workload(
            database=self.database,
            settings=self.settings,
            tracking=self.tracking,
            devices=self.devices,
            manifest_writer=self.manifest_writer,
            experiment=planned.experiment,
            experiment_name=f"{planned.experiment} {name}",
            workload=planned.workload,
            report=self.report,
            write_back=write_back,
            policy=policy,
            began=began,
        )

    def clear_devices(self, session: Session) -> None:
        """Remove provisioned devices of ended runs whose scheduler has died."""
        for problem in self.devices.clear(session):
            self._warn("", problem)

    def settle(self, run_ids: Sequence[str]) -> None:
        """Wait until the collector has written the last samples of ended runs."""
        with self.database.session() as connection:
            wait_until(lambda: not unsummarised(connection, run_ids), _SETTLE_SECONDS)

    def _require_here(self, session: Session, run_id: str) -> None:
        if (row := session(jobs.find_job, run_id)) is not None:
            what = f"{row.executor}'s job {row.native_id or row.job}"
            raise BadRequest(f"run {run_id[:8]} is in {what}; schedule the file with --executor {row.executor}")
        if (host := session(runs.host_of, run_id)) != platform.node():
            raise BadRequest(f"run {run_id[:8]} is running on host {host}; schedule the file there")

    def _other_programs(self, session: Session, gpus: Iterable[Gpu]) -> dict[str, list[str]]:
        """Return the names of programs on GPUs that are of no run, by the GPU's label."""
        assert self.quiet_host is not None
        programs = {}
        for gpu in gpus:
            if gpu.vendor != NVIDIA:
                continue
            with contextlib.suppress(GpuUnavailable):
                layout, ours = self.devices.without_ours(session, gpu.uuid)
                if others := sorted(layout.pids - ours):
                    programs[gpu.label] = [self.quiet_host.cpu.name(pid) for pid in others]
        return programs

    def _note(self, label: str, message: str) -> None:
        self.report(Event("note", label, message=message))

    def _warn(self, label: str, message: str) -> None:
        self.report(Event("warning", label, message=message))


def _gpus(jobs: Iterable[Job]) -> list[Gpu]:
    return list(dict.fromkeys(gpu for job in jobs for gpu in job.devices or ()))
