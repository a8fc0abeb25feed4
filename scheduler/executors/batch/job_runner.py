"""Runner of a job on its host: one workload within the job's resources."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.selectors import new_run_id
from hypergauge.core.system.periodic import Periodic
from hypergauge.scheduler.active import new_run
from hypergauge.scheduler.devices.devices import Devices
from hypergauge.scheduler.events import Event, Outcome
from hypergauge.scheduler.executors.base import BatchSystem
from hypergauge.scheduler.executors.batch.device_assignment import assign_devices
from hypergauge.scheduler.executors.batch.order import OrderedRun, WorkloadOrder
from hypergauge.scheduler.executors.batch.run_exits import was_taken
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.job import Job, job_from_row
from hypergauge.scheduler.launch.commands import make_environments
from hypergauge.scheduler.plan import checks
from hypergauge.scheduler.plan.checks import Reactions
from hypergauge.scheduler.supervision import ask_to_stop, unseen_end
from hypergauge.scheduler.workload import Workload
from hypergauge.sql.runs import experiments, jobs, runs
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.session import Session

__all__ = ["run_job"]

# A step waits until the controller of the batch system answers.
_STEP_SECONDS = 600.0
_LOOK_SECONDS = 1.0


def run_job(
    order: WorkloadOrder, system: BatchSystem, executor: LocalExecutor, exporters: Mapping[str, str | None],
    reactions: Reactions,
) -> list[Outcome]:  # fmt: skip
    """Run a job's workload on this host; return the outcomes.

    Parameters
    ----------
    executor
        Executor of this host.
    exporters, reactions
        See `hypergauge.scheduler.plan.checks.check`.

    Raises
    ------
    BenchError
        The workload cannot run here.
    """
    ready, instances = _prepared(order, system, executor, exporters, reactions)
    workload = Workload(
        database=executor.database,
        settings=executor.settings,
        tracking=executor.tracking,
        devices=Devices(executor.settings, allocated=instances, vendors=executor.inventory.vendors),
        manifest_writer=executor.manifest_writer,
        experiment=order.experiment,
        experiment_name=order.name,
        workload=order.workload,
        report=executor.report,
        write_back=lambda _: None,
        policy=order.load_policy(),
        began=order.began,
        through=system.step,
        ready_seconds=_STEP_SECONDS,
        why_lost=system.why_lost,
    )
    with _StopWatch(executor.database, order.job, executor.settings.runs_dir):
        return workload.run(ready) if ready else []


def _prepared(
    order: WorkloadOrder, system: BatchSystem, executor: LocalExecutor, exporters: Mapping[str, str | None],
    reactions: Reactions,
) -> tuple[list[Job], Sequence[str]]:  # fmt: skip
    """Return the jobs of the due runs, checked for this host, and the MIG instances of the job."""
    with executor.database.session() as connection:
        due = _due(connection, order, system.restarted())
        gpus, instances = system.visible(executor.inventory.gpus)
        parsed = {run.run_id: order.row(run) for run in due}
        assigned = assign_devices({run_id: row for run_id, (_, row) in parsed.items()}, gpus, instances)
        ready: list[Job] = []
        for run in due:
            file, row = parsed[run.run_id]
            checks.check(file, assigned[run.run_id], exporters, reactions)
            make_environments(file, [row], lambda text: executor.report(Event("note", "", message=text)))
            job = job_from_row(
                file, row, assigned[run.run_id], position=run.position, attempt=run.attempt, previous=None
            )
            ready.append(replace(job, line=None, run_id=run.run_id))
        _store(connection, order, ready)
    return ready, instances


def _due(connection: Connection, order: WorkloadOrder, restarted: str | None) -> list[OrderedRun]:
    """Return the due runs: queued runs, and next attempts of runs that a restart of the job interrupted.

    Raises
    ------
    BadRequest
        The submitter has given up the job.
    """
    known = jobs.job_runs(connection, order.job)
    due = []
    for run in order.runs:
        latest = next((one for one in reversed(known) if one.position == run.position), None)
        if latest is None:
            raise BadRequest(f"the run {run.run_id} is no longer in the database")
        if latest.status == "pending":
            due.append(replace(run, run_id=latest.run_id, attempt=latest.attempt))
        elif was_taken(latest):  # an earlier start of this job was interrupted; not every batch system reports restarts
            now = time.time()
            began = latest.started_at or now
            ended = max(began, latest.ended_at or runs.last_sign_of_life(connection, latest.run_id) or now)
            end = unseen_end("stopped", began, ended, restarted or "its job was restarted")
            runs.end_run(connection, latest.run_id, replace(end, exit_code=latest.exit_code))
            due.append(replace(run, run_id=new_run_id(), attempt=latest.attempt + 1))
    return due


def _store(connection: Connection, order: WorkloadOrder, ready: Sequence[Job]) -> None:
    """Store the due runs as the job's, including new attempts."""
    workload_id = experiments.open_workload(connection, order.experiment, order.workload)
    ids = [job.run_id for job in ready if job.run_id is not None]
    runs.create_runs(connection, [new_run(job.run_id or "", job, workload_id, platform.node()) for job in ready])
    jobs.give_to_job(connection, order.job, ids)


class _StopWatch:
    """Background watch for stop requests from other hosts."""

    def __init__(self, database: Database, job: str, runs_dir: Path) -> None:
        self._session = Session(database, timeout=0)
        self._job, self._runs_dir = job, runs_dir
        self._looks = Periodic("stop requests", self._look, _LOOK_SECONDS)

    def __enter__(self) -> Self:
        self._looks.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._looks.end()
        self._session.close()

    def _look(self) -> None:
        for run_id, reason in self._session(jobs.asked_to_stop, self._job).items():
            ask_to_stop(RunFolder(self._runs_dir / run_id), reason)
