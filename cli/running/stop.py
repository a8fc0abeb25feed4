"""The command ``stop``."""

from __future__ import annotations

import contextlib
import getpass
import platform
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import asking_primary, console
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.selectors import Selector
from hypergauge.scheduler.executors.registry import load_executor
from hypergauge.scheduler.executors.run_exits import STOPPED_BEFORE, asked_by
from hypergauge.scheduler.supervision import ask_to_stop
from hypergauge.sql.runs import experiments, jobs
from hypergauge.sql.runs.jobs import JobRow
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["register"]

# Beside the time that a run has to end by itself.
_END_SECONDS = 15.0


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(stop)


def stop(selector: Annotated[str, typer.Argument(help="An experiment, a workload or a run.")]) -> None:
    """Stop runs with all of their processes. Queued runs do not begin.

    Of an experiment nothing more begins either: its schedule goes on with other experiments alone.
    """
    settings = Settings.load()
    with asking_primary(settings) as connection:
        ended = _end_schedule(connection, Selector.parse(selector))
        going = [one for one in select_runs(connection, [selector]) if one.status in ("pending", "running")]
        given = {one.run_id: row for one in going if (row := jobs.find_job(connection, one.run_id)) is not None}
        here = [one for one in going if one.run_id not in given and one.status == "running"]
        if not given and not here and not ended:
            raise BadRequest(f"nothing of {selector} is running")
        for one in here:
            _stop_here(settings, one)
        jobs.ask_to_stop(connection, list(given), asked_by(getpass.getuser()))
        for row in dict.fromkeys(given.values()):
            _cancel_unbegun(connection, row)
        for one in going:
            if one in here or one.run_id in given:
                console().print(f"{one.label} {escape(one.name)} is asked to stop")
        _await_ends(connection, settings, here, list(given))


def _end_schedule(connection: Connection, selector: Selector) -> bool:
    """Ask the schedule of an experiment to end, where all of it is selected; return whether there is one."""
    experiment = selector.experiment
    if experiment is None or selector.workload is not None or not experiments.being_scheduled(connection, experiment):
        return False
    experiments.ask_to_end(connection, experiment, asked_by(getpass.getuser()))
    console().print(f"experiment {experiment} is asked to end: nothing more of it begins")
    return True


def _stop_here(settings: Settings, run: RunInfo) -> None:
    if run.host != platform.node():
        raise BadRequest(f"run {run.label} goes on at host {run.host}; stop it there")
    if not ask_to_stop(RunFolder(settings.runs_dir / run.run_id)):
        raise BadRequest(f"run {run.label} has lost its supervisor; `bench schedule` on its file ends it")


def _cancel_unbegun(connection: Connection, row: JobRow) -> None:
    """End a job of which nothing has begun, and nothing is wanted; where it cannot be told so, its host will be."""
    open_runs = [run for run in jobs.job_runs(connection, row.job) if run.ended_at is None]
    if row.native_id is None or any(run.status != "pending" or run.stop_reason is None for run in open_runs):
        return
    with contextlib.suppress(BenchError):
        executor = load_executor(row.executor)
        if executor is not None:
            executor.cancel(row.native_id)
            jobs.withdraw(connection, row.job, STOPPED_BEFORE)


def _await_ends(connection: Connection, settings: Settings, here: Sequence[RunInfo], elsewhere: Sequence[str]) -> None:
    deadline = time.monotonic() + settings.grace + _END_SECONDS
    while time.monotonic() < deadline:
        left = [one for one in here if RunFolder(settings.runs_dir / one.run_id).end() is None]
        if not left and not jobs.open_runs(connection, elsewhere):
            return
        time.sleep(0.1)
