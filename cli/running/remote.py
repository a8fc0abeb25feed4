"""Schedules through an executor: checks before submission, and the command ``job`` on the other host."""

from __future__ import annotations

import contextlib
import platform
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hypergauge.cli.running import plan
from hypergauge.cli.running.progress import interrupted, live, scheduling, settle, show, surviving_the_terminal
from hypergauge.cli.serving.stack import availability, own_tracking_server
from hypergauge.cli.serving.unmeasured import telling_unmeasured
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.files import private
from hypergauge.dashboards.terminal.progress import Progress
from hypergauge.exporters.serving.registry import Registry
from hypergauge.scheduler.executors.base import Executor
from hypergauge.scheduler.executors.registry import load_executor
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.plan import checks
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.sql.runs import jobs
from hypergauge.sql.server.database import Database, lost

if TYPE_CHECKING:
    from hypergauge.scheduler.executors.schedule import RemoteScheduler

__all__ = ["load", "register", "scheduling_elsewhere"]

# For so long what others have left may hold up a job's end; the next job goes on with it.
_LEFTOVER_SECONDS = 20.0
# By which the folder of a job's second start, and those after it, differ from the job's name.
_START = re.compile(r"-\d{1,3}$")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(hidden=True)(job)


def load(settings: Settings, executor: Executor, path: Path, policy: Policy) -> ExperimentFile:
    """Read an experiment file for an executor, and refuse what cannot be of it.

    Raises
    ------
    BadRequest
        The file is wrong, or hosts would not reach what they need.
    """
    what = f"--executor {executor.name}"
    if settings.dsn is None:
        raise BadRequest(
            f"{what} needs a database that its hosts reach: set BENCH_DSN to a server's, since the embedded one listens on a "
            "socket of this host alone"
        )
    if own_tracking_server(settings):
        raise BadRequest(
            f"{what} needs a tracking server that its hosts reach: set MLFLOW_TRACKING_URI to its http address, "
            f"not {settings.tracking_uri or 'nothing'}"
        )
    if policy.cooldown is not None:
        raise BadRequest(f"--cooldown waits for this host, and with {what} others run the workloads")
    # Which of the exporters that there are can work, the hosts know.
    file = checks.load(path, None, dict.fromkeys(Registry.load()), plan.reactions())
    from hypergauge.scheduler.executors.schedule import refuse_rows

    refuse_rows(executor, file)
    return file


@contextlib.contextmanager
def scheduling_elsewhere(
    settings: Settings, executor: Executor, policy: Policy, max_jobs: int
) -> Iterator[RemoteScheduler]:
    """Provide a scheduler that gives workloads to an executor, with its progress shown."""
    from hypergauge.scheduler.executors.schedule import RemoteScheduler
    from hypergauge.scheduler.tracking.tracking import Tracking

    with contextlib.ExitStack() as stack:
        stack.enter_context(interrupted())
        stack.enter_context(surviving_the_terminal())
        progress = stack.enter_context(Progress())
        database = stack.enter_context(Database(settings))
        progress.live = lambda ids: live(database, ids)
        stack.enter_context(telling_unmeasured(database, progress.going, progress.say))
        yield RemoteScheduler(
            database=database,
            settings=settings,
            tracking=Tracking(settings.tracking_uri or ""),
            executor=executor,
            report=lambda event: show(progress, event),
            policy=policy,
            max_jobs=max_jobs,
        )


def job() -> None:
    """Run the workload of an executor's job on this host. The order comes from standard input."""
    from hypergauge.scheduler.executors.job_runner import run_job
    from hypergauge.scheduler.executors.order import WorkloadOrder

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so an executor ends its jobs
    order = WorkloadOrder.decode(sys.stdin.read())
    with _failure_told(order.job), contextlib.chdir(order.directory):
        executor = load_executor(order.executor)
        assert executor is not None
        settings = Settings.load(home=order.home, interval=order.interval)
        settings = replace(settings, home=_own_folder(settings.home / "jobs", order.job))
        with scheduling(settings, policy=order.load_policy()) as scheduler:
            outcomes = run_job(order, executor, scheduler, availability(settings), plan.reactions())
            settle(scheduler.database, [outcome.run_id for outcome in outcomes])
            _write_leftovers(scheduler.database, settings.home.parent)
    if any(outcome.status != "finished" for outcome in outcomes):
        raise typer.Exit(1)


@contextlib.contextmanager
def _failure_told(job: str) -> Iterator[None]:
    """Tell the database what keeps a job from running its runs, for those who wait for it elsewhere."""
    try:
        yield
    except (BenchError, OSError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        with contextlib.suppress(BenchError), Database(Settings.load()).session() as connection:
            jobs.fail_job(connection, job, f"{platform.node()}: {why}")
        raise


def _write_leftovers(database: Database, parent: Path) -> None:
    """Write what collectors of jobs that have ended had no time to: jobs are killed, and nodes fail."""
    from hypergauge.collector.write.drain import drain

    until = time.monotonic() + _LEFTOVER_SECONDS
    spools = {file.parent: _START.sub("", file.parents[1].name) for file in parent.glob("*/spool/*.spool")}
    if not spools:
        return
    with contextlib.suppress(BenchError, *lost), database.session() as connection:
        ended = jobs.ended_jobs(connection, list(spools.values()))
        for spool in (spool for spool, job in spools.items() if job in ended):
            if (seconds := until - time.monotonic()) > 0:
                with contextlib.suppress(BenchError):
                    drain(database, spool, seconds)


def _own_folder(parent: Path, name: str) -> Path:
    """Make a folder for this start of a job; an earlier one's may be there, on a disk that hosts share."""
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            private.make_folder(folder.parent)
            folder.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return folder
