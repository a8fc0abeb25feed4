"""Workload: simultaneous release of its runs, their supervision and their delivery."""

from __future__ import annotations

import contextlib
import math
import platform
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hypergauge.core.config.bench_toml import config_file
from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.selectors import new_run_id
from hypergauge.core.system.foreground import Foreground
from hypergauge.core.system.polling import readable
from hypergauge.core.system.processes import end_run as end_processes
from hypergauge.core.system.signals import suspended_together, uninterrupted
from hypergauge.core.system.uptime import booted_at
from hypergauge.scheduler.active import READY_SECONDS, ActiveRun, launched_with, new_run
from hypergauge.scheduler.devices.assigned import AssignedDevices
from hypergauge.scheduler.devices.devices import Devices
from hypergauge.scheduler.events import Event, Outcome, label
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.launch.launch import client_folder
from hypergauge.scheduler.measuring import await_choices
from hypergauge.scheduler.plan.policy import FAILURES, Policy
from hypergauge.scheduler.profilers.kernels import with_kernels
from hypergauge.scheduler.provenance.manifest import ManifestWriter
from hypergauge.scheduler.supervision import end_lost_run
from hypergauge.scheduler.supervisor.order import Order
from hypergauge.scheduler.tracked import TrackedRuns
from hypergauge.scheduler.tracking.software import SoftwareWatch
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["Workload"]

# Shortest time between two checks of the runs.
_LOOK_SECONDS = 0.005
# Time of a run to end after an interrupt, before the command says that it continues.
_REACTION_SECONDS = 2.0
# Runs that are released within this time of their placement start at the time of their placement.
_SOON_SECONDS = 0.01


class Workload:
    """Runner of the jobs of one workload.

    Parameters
    ----------
    report
        Called with each `Event`.
    write_back
        Called with ``{line: (status, run id)}`` whenever the rows of a file change.
    policy
        Timeouts and fail-fast; the caller retries.
    began
        Release of the workload's first run in Unix seconds; ``None`` before it.
    through
        Function that returns the command prefix of a run's supervisor; none by default.
    ready_seconds
        Longest start of a supervisor in seconds.
    why_lost
        Function that returns why a supervisor has vanished, from its log; ``None`` if unknown.
    """

    def __init__(
        self,
        *,
        database: Database,
        settings: Settings,
        tracking: Tracking | None,
        devices: Devices,
        manifest_writer: ManifestWriter,
        experiment: int,
        experiment_name: str,
        workload: int,
        report: Callable[[Event], None],
        write_back: Callable[[Mapping[int, tuple[str, str]]], None],
        policy: Policy,
        began: float | None = None,
        through: Callable[[str], Sequence[str]] = lambda _: (),
        ready_seconds: float = READY_SECONDS,
        why_lost: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self.database, self.settings, self.tracking = database, settings, tracking
        self.experiment, self.experiment_name, self.workload = experiment, experiment_name, workload
        self.devices, self.manifest_writer, self.report, self.write_back = devices, manifest_writer, report, write_back
        self.policy, self.began = policy, began
        self.through, self.ready_seconds, self.why_lost = through, ready_seconds, why_lost
        self.foreground: Foreground | None = None  # of a command that shares its terminal with the run
        self.delivers = True  # otherwise the supervisors deliver, and the command does not wait for them
        self._active: list[ActiveRun] = []
        self._failed: ActiveRun | None = None
        self._mlflow = TrackedRuns(database, tracking, experiment, experiment_name, workload, report)

    def run(self, jobs: Sequence[Job], attached: Sequence[Job] = ()) -> list[Outcome]:
        """Run `jobs`, and wait for them and for the `attached` ones; return the outcome of each.

        An interrupt (``KeyboardInterrupt``) stops all of them, and is raised again after their ends. With a foreground, it
        is passed on to a running run, which ends by itself; its outcome is returned. The next interrupt ends it.
        """
        left = not self.delivers
        with Session(self.database, notify=self._notify) as session:
            self._attach(session, attached)
            try:
                if jobs:
                    self._start(session, jobs)
                with (
                    SoftwareWatch(self.database, self.tracking, self._software_runs),
                    self._suspended_with_the_command(),
                ):
                    self._wait(session)
            except KeyboardInterrupt:
                left = False
                if not self._interrupt(session):
                    self._stop(session)
                    raise
            finally:
                try:
                    self._free_devices()
                finally:
                    if self.delivers:
                        self._mlflow.deliver(session, self._active)
                    else:
                        self._mlflow.note(session, self._active)
                    for active in self._active:
                        active.detach(wait=not left)
        return [
            Outcome(active.job, active.folder.run_id, active.status, active.end.exit_code if active.end else None)
            for active in self._active
        ]

    def _software_runs(self) -> list[str]:
        return [active.folder.run_id for active in self._active if active.end is None]

    def _attach(self, session: Session, jobs: Sequence[Job]) -> None:
        for job in jobs:
            assert job.previous is not None
            folder = RunFolder(self.settings.runs_dir / job.previous.run_id)
            same = replace(job, attempt=job.previous.attempt)
            self._active.append(ActiveRun(same, folder, job.previous.mlflow_run_id))
            if (state := folder.state()) is not None and state.started_at is not None:
                self.began = min(self.began or state.started_at, state.started_at)
            self._emit("attached", self._active[-1])
        self.devices.adopt(session, [active.folder.run_id for active in self._active])

    def _start(self, session: Session, jobs: Sequence[Job]) -> None:
        manifests = self.manifest_writer.begin(jobs)
        # First, so that unavailable devices and kernels are refused before the runs exist.
        by_id = {job.run_id or new_run_id(): job for job in jobs}
        wrappers = {run_id: session(with_kernels, job.profilers) for run_id, job in by_id.items()}
        assigned = self.devices.provide(session, by_id, [active.folder.run_id for active in self._active])
        workload_id = session(experiments.open_workload, self.experiment, self.workload)
        before = session(runs.positions_started, workload_id, platform.node(), booted_at())
        starting = [self._prepare(run_id, job, assigned[run_id]) for run_id, job in by_id.items()]
        self._active += starting
        host = platform.node()
        created = [new_run(one.folder.run_id, one.job, workload_id, host) for one in starting]
        session(runs.create_runs, created, self.settings.lease)
        try:
            for active in starting:  # the slowest step first
                active.start_supervisor(
                    self.through(active.folder.run_id), self.foreground.descriptor if self.foreground else None
                )
            if self.foreground:
                self.foreground.handed_over()
            self._write_back(starting)
            self._mlflow.create(session, starting, before)
            client = client_folder(self.settings.home)
            for active in starting:
                active.order(self._order(active, wrappers[active.folder.run_id], client))
            for active in starting:  # while the supervisors come up
                manifests.write(active.folder, active.job)
            for active in starting:
                active.await_ready(self._label(active.job), self.ready_seconds)
            await_choices(session, list(by_id), self._notify)
        except Exception:
            self._dismiss(session, starting)
            raise
        # The placement precedes the release, so that all samples of the runs have their tag.
        placements = [placement for active in starting for placement in active.placements]
        placed_at = session(runs.start_runs, workload_id, placements, lease=self.settings.lease)
        # One start for all runs; durations exclude the time of the database.
        now = time.time()
        released_at = placed_at if 0 <= now - placed_at <= _SOON_SECONDS else now
        self.began = self.began or released_at
        for active in starting:
            active.release(released_at)
        if released_at != placed_at:
            run_ids = [active.folder.run_id for active in starting]
            session(runs.move_starts, workload_id, run_ids, placed_at, released_at)
        for active in starting:
            self._emit("started", active)

    def _prepare(self, run_id: str, job: Job, assigned: AssignedDevices) -> ActiveRun:
        folder = RunFolder(self.settings.runs_dir / run_id)
        container = job.command.container.name(run_id) if job.command.container else None
        folder.create(
            {
                "label": self._label(job),
                "command": job.shown_command,
                "container": container,
                "config": str(file) if (file := config_file()) else None,
            }
        )
        return ActiveRun(job, folder, None, assigned=assigned)

    def _order(self, active: ActiveRun, wrappers: Mapping[str, Mapping[str, str]], client: Path) -> Order:
        context = {"BENCH_EXPERIMENT": str(self.experiment), "BENCH_WORKLOAD": str(self.workload)}
        not_inherited = self.tracking.own_variables if self.tracking else frozenset()
        variables = {**context, **self._mlflow.variables(active)}
        words, environment = launched_with(active, wrappers, variables, not_inherited, client)
        return Order(
            words=words,
            directory=str(active.job.command.directory),
            environment=environment,
            settings=self.settings.carried(),
            policy=asdict(self.policy),
            workload_began=self.began,
            tracking_uri=self.tracking.uri if self.tracking else None,
            mlflow_run_id=active.mlflow_run_id,
            profilers="+".join(active.job.profilers),
            experiment=self.experiment,
            delivers=not self.delivers,
            stdin=active.stdin,
        )

    def _dismiss(self, session: Session, starting: Sequence[ActiveRun]) -> None:
        """End the supervisors of runs that will not be released, which frees their devices; their rows stay to do."""
        for active in starting:
            active.dismiss()
        for active in starting:
            active.end = session(end_lost_run, active.folder)
            active.status = active.end.status
        self.write_back({a.job.line: ("", a.folder.run_id) for a in starting if a.job.line is not None})

    def _wait(self, session: Session, seconds: float = math.inf) -> None:
        pause, until = 0.02, time.monotonic() + seconds
        while (open_runs := self._open_runs()) and time.monotonic() < until:
            for active in open_runs:
                self._look(session, active)
            self._mlflow.note(session, self._active)
            # Supervisors announce ends on their pipes; attached and dead supervisors need polling.
            pipes = [active.pipe for active in open_runs if active.pipe and active.status == "running"]
            if not readable(pipes, pause):
                pause = min(0.1, pause * 1.2)
            time.sleep(_LOOK_SECONDS)

    def _look(self, session: Session, active: ActiveRun) -> None:
        alive = active.is_supervised  # before `end()`: a supervisor writes the end before it exits
        if (end := active.folder.end()) is not None:
            session(runs.end_run, active.folder.run_id, end)
        elif not alive:
            end = session(end_lost_run, active.folder, self.why_lost(active.read_supervisor_log()))
        else:
            return
        with uninterrupted():  # an ended run is not checked again
            active.end, active.status = end, end.status
            self._write_back([active])
            self._emit("ended", active)
        if self.policy.fail_fast and active.status in FAILURES:
            self._end_others(active)

    def _end_others(self, failed: ActiveRun) -> None:
        """Stop the running runs because of the workload's first failure."""
        if self._failed is None:
            self._failed = failed
            what = "timed out" if failed.status == "timeout" else "failed"
            for active in self._active:
                if active.status == "running":
                    active.ask_to_stop(f"stopped: {failed.job.name} {what}")

    def _open_runs(self) -> list[ActiveRun]:
        return [active for active in self._active if active.status == "running"]

    @contextlib.contextmanager
    def _suspended_with_the_command(self) -> Iterator[None]:
        """Let Ctrl-Z stop the runs together with a command that shares its terminal with them."""

        def send(number: signal.Signals) -> None:
            for active in self._open_runs():
                active.suspend(number)

        with contextlib.nullcontext() if self.foreground is None else suspended_together(send):
            yield

    def _interrupt(self, session: Session) -> bool:
        """Pass an interrupt on to the run in the foreground, and wait for its end; return whether there is one.

        The next interrupt stops it.
        """
        if self.foreground is None or self.began is None:
            return False
        try:
            with uninterrupted():
                for active in self._open_runs():
                    active.interrupt()
            self._wait(session, _REACTION_SECONDS)
            for active in self._open_runs():
                message = "got SIGINT, and continues; Ctrl-C once more ends it"
                self.report(Event("note", self._label(active.job), message=message))
            self._wait(session)
        except KeyboardInterrupt:
            self._stop(session)
        return True

    def _stop(self, session: Session) -> None:
        """Stop all runs; kill them at a second interrupt."""
        kill = False
        while open_runs := self._open_runs():
            try:
                # Each supervisor first: it must know why its run ends.
                with uninterrupted():
                    for active in open_runs:
                        active.ask_to_stop()
                for active in open_runs if kill else ():
                    end_processes(active.folder.run_id, grace=0)
                self._wait(session)
            except KeyboardInterrupt:
                kill = True

    def _free_devices(self) -> None:
        """Remove provisioned devices of ended runs; others stay recorded, and are removed later."""
        for active in self._active:
            if active.assigned and active.assigned.lock:
                active.assigned.lock.release()
        # A new connection: an interrupt or error may have come in the middle of a statement.
        with uninterrupted(), contextlib.closing(Session(self.database, notify=self._notify)) as session:
            for problem in self.devices.clear(session):
                self._notify(problem)

    def _notify(self, message: str) -> None:
        self.report(Event("warning", f"{self.experiment}/{self.workload}", message=message))

    def _write_back(self, changed: Sequence[ActiveRun]) -> None:
        rows = {a.job.line: (a.status, a.folder.run_id) for a in changed if a.job.line is not None}
        if rows:
            self.write_back(rows)

    def _label(self, job: Job) -> str:
        return label(self.experiment, self.workload, job)

    def _emit(self, kind: str, active: ActiveRun) -> None:
        end = active.end
        self.report(
            Event(
                kind=kind,
                label=self._label(active.job),
                run_id=active.folder.run_id,
                name=active.job.name,
                status=active.status,
                message=(end.reason or "") if end else "",
                seconds=end.ended_at - end.started_at if end else 0.0,
            )
        )
