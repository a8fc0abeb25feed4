"""Stop of runs, on this host and in an executor's jobs."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.selectors import Selector
from hypergauge.core.system.polling import wait_until
from hypergauge.scheduler.executors.batch.run_exits import STOPPED_BEFORE, asked_by
from hypergauge.scheduler.executors.registry import load_batch_system
from hypergauge.scheduler.supervision import ask_to_stop
from hypergauge.sql.runs import experiments, jobs
from hypergauge.sql.runs.jobs import JobRow
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["stop_runs"]

# Added to the grace period of a run.
_END_SECONDS = 15.0


def stop_runs(
    connection: Connection, settings: Settings, selector: str, user: str, notify: Callable[[str, RunInfo | None], None]
) -> None:
    """Ask the selected runs to stop, with all of their processes, and wait for their ends.

    If a whole experiment is selected, its schedule starts no further runs of it.

    Parameters
    ----------
    user
        User who stops them, stored in the reason.
    notify
        Receiver of messages, each with the run concerned.

    Raises
    ------
    BadRequest
        No selected run is running, or a run cannot be stopped from this host.
    """
    ended = _end_schedule(connection, Selector.parse(selector), user, notify)
    running = [one for one in select_runs(connection, [selector]) if one.status in ("pending", "running")]
    in_jobs = {one.run_id: row for one in running if (row := jobs.find_job(connection, one.run_id)) is not None}
    here = [one for one in running if one.run_id not in in_jobs and one.status == "running"]
    if not in_jobs and not here and not ended:
        raise BadRequest(f"nothing of {selector} is running")
    for one in here:
        _stop_here(settings, one)
    jobs.ask_to_stop(connection, list(in_jobs), asked_by(user))
    for row in dict.fromkeys(in_jobs.values()):
        _cancel_unbegun(connection, row)
    for one in running:
        if one in here or one.run_id in in_jobs:
            notify("is asked to stop", one)

    def all_ended() -> bool:
        left = [one for one in here if RunFolder(settings.runs_dir / one.run_id).end() is None]
        return not left and not jobs.open_runs(connection, list(in_jobs))

    wait_until(all_ended, settings.grace + _END_SECONDS)


def _end_schedule(
    connection: Connection, selector: Selector, user: str, notify: Callable[[str, RunInfo | None], None]
) -> bool:
    """Ask the schedule of a fully selected experiment to end; return whether there is a schedule."""
    experiment = selector.experiment
    if experiment is None or selector.workload is not None or not experiments.being_scheduled(connection, experiment):
        return False
    experiments.ask_to_end(connection, experiment, asked_by(user))
    notify(f"experiment {experiment} is asked to end: no further run of it starts", None)
    return True


def _stop_here(settings: Settings, run: RunInfo) -> None:
    if run.host != platform.node():
        raise BadRequest(f"run {run.label} is running on host {run.host}; stop it there")
    if not ask_to_stop(RunFolder(settings.runs_dir / run.run_id)):
        raise BadRequest(f"run {run.label} has lost its supervisor; `bench schedule` on its file ends it")


def _cancel_unbegun(connection: Connection, row: JobRow) -> None:
    """Cancel a job if none of its runs has begun and all are stopped; else the job's host stops them."""
    open_runs = [run for run in jobs.job_runs(connection, row.job) if run.ended_at is None]
    if row.native_id is None or any(run.status != "pending" or run.stop_reason is None for run in open_runs):
        return
    with contextlib.suppress(BenchError):
        executor = load_batch_system(row.executor)
        if executor is not None:
            executor.cancel(row.native_id)
            jobs.withdraw(connection, row.job, STOPPED_BEFORE)
