"""Command ``job``: runs a workload on the host of a batch system's job."""

from __future__ import annotations

import contextlib
import platform
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace

import typer

from hypergauge.cli.running import plan
from hypergauge.cli.running.progress import on_this_host
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.core.files import private
from hypergauge.scheduler.executors.registry import load_batch_system
from hypergauge.sql.runs import jobs
from hypergauge.sql.server.database import Database
from hypergauge.stack.job_spools import drain_ended_jobs
from hypergauge.stack.local_stack import availability

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(hidden=True)(job)


def job() -> None:
    """Run the workload of an executor's job on this host. The order comes from standard input."""
    from hypergauge.scheduler.executors.batch.job_runner import run_job
    from hypergauge.scheduler.executors.batch.order import WorkloadOrder

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # batch systems end jobs with SIGTERM
    order = WorkloadOrder.decode(sys.stdin.read())
    with _reported_failure(order.job), contextlib.chdir(order.directory):
        system = load_batch_system(order.executor)
        assert system is not None
        settings = Settings.load(home=order.home, interval=order.interval)
        settings = replace(settings, home=private.make_numbered_folder(settings.home / "jobs", order.job))
        with on_this_host(settings) as executor:
            outcomes = run_job(order, system, executor, availability(settings), plan.reactions())
            executor.settle([outcome.run_id for outcome in outcomes])
            drain_ended_jobs(executor.database, settings.home.parent)
    if any(outcome.status != "finished" for outcome in outcomes):
        raise typer.Exit(1)


@contextlib.contextmanager
def _reported_failure(job: str) -> Iterator[None]:
    """Store why a job cannot run its runs in the database, for the scheduler that monitors the job."""
    try:
        yield
    except (BenchError, OSError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        with contextlib.suppress(BenchError), Database(Settings.load()).session() as connection:
            jobs.fail_job(connection, job, f"{platform.node()}: {why}")
        raise
