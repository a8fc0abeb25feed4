"""Command ``job``: runs a workload on the host of a batch system's job."""

from __future__ import annotations

import contextlib
import signal
import sys
from dataclasses import replace

import typer

from hypergauge.cli.help import Commands
from hypergauge.cli.running.progress import on_this_host
from hypergauge.core.config.settings import Settings
from hypergauge.core.files import private
from hypergauge.scheduler.executors.registry import load_batch_system
from hypergauge.stack.experiment_checks import reactions
from hypergauge.stack.services.job_spools import drain_ended_jobs
from hypergauge.stack.services.local_stack import availability

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(hidden=True, examples={})(job)


def job() -> None:
    """Run the workload of an executor's job on this host. The order comes from standard input."""
    from hypergauge.scheduler.executors.batch.job_failure import reported_failure
    from hypergauge.scheduler.executors.batch.job_runner import run_job
    from hypergauge.scheduler.executors.batch.order import WorkloadOrder

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # batch systems end jobs with SIGTERM
    order = WorkloadOrder.decode(sys.stdin.read())
    with reported_failure(order.job), contextlib.chdir(order.directory):
        system = load_batch_system(order.executor)
        assert system is not None
        settings = Settings.load(home=order.home, interval=order.interval)
        settings = replace(settings, home=private.make_numbered_folder(settings.home / "jobs", order.job))
        with on_this_host(settings) as executor:
            outcomes = run_job(order, system, executor, availability(settings), reactions())
            executor.settle([outcome.run_id for outcome in outcomes])
            drain_ended_jobs(executor.database, settings.home.parent)
    if any(outcome.status != "finished" for outcome in outcomes):
        raise typer.Exit(1)
