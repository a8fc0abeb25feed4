"""Progress, interrupts and lost terminals of commands that run workloads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from hypergauge.core.config.settings import Settings
from hypergauge.core.system.other_processes import HostCpu
from hypergauge.core.system.signals import surviving_the_terminal
from hypergauge.dashboards.terminal.output import OutputCopies
from hypergauge.dashboards.terminal.progress import Progress
from hypergauge.gpu import inventory
from hypergauge.sql.queries.summaries import reachable_live_values
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.local_stack import local_stack
from hypergauge.stack.unmeasured import watching_unmeasured

if TYPE_CHECKING:
    from hypergauge.scheduler.events import Event
    from hypergauge.scheduler.executors.base import BatchSystem
    from hypergauge.scheduler.executors.batch.executor import BatchExecutor
    from hypergauge.scheduler.executors.local import LocalExecutor

__all__ = ["interrupted", "on_batch_system", "on_this_host"]


@contextlib.contextmanager
def on_this_host(settings: Settings, *, quiet: bool = False, copies_output: bool = False) -> Iterator[LocalExecutor]:
    """Provide the executor of this host with the local stack; show progress, and the output if `copies_output`."""
    from hypergauge.scheduler.executors.local import LocalExecutor
    from hypergauge.scheduler.plan.quiet_host import QuietHost
    from hypergauge.scheduler.tracking.tracking import Tracking

    quiet_host = QuietHost(HostCpu(), allowed=settings.quiet_cores)  # measures from here on
    with _shown(Progress(quiet=quiet, lines=copies_output)) as (progress, stack):
        output = OutputCopies(settings.runs_dir) if copies_output else None
        local = stack.enter_context(local_stack(settings, progress.notify))
        _watch(progress, stack, local.database)
        yield LocalExecutor(
            database=local.database,
            settings=settings,
            tracking=Tracking(local.tracking_uri),
            inventory=inventory(settings.simulate, settings.home),
            report=lambda event: show(progress, event, output),
            quiet_host=quiet_host,
        )


@contextlib.contextmanager
def on_batch_system(settings: Settings, system: BatchSystem, max_jobs: int) -> Iterator[BatchExecutor]:
    """Provide the executor of a batch system; show progress."""
    from hypergauge.scheduler.executors.batch.executor import BatchExecutor
    from hypergauge.scheduler.tracking.tracking import Tracking

    with _shown(Progress()) as (progress, stack):
        database = stack.enter_context(Database(settings))
        _watch(progress, stack, database)
        yield BatchExecutor(
            database=database,
            settings=settings,
            tracking=Tracking(settings.tracking_uri or ""),
            system=system,
            report=lambda event: show(progress, event),
            max_jobs=max_jobs,
        )


@contextlib.contextmanager
def _shown(progress: Progress) -> Iterator[tuple[Progress, contextlib.ExitStack]]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(interrupted())
        stack.enter_context(surviving_the_terminal())
        yield stack.enter_context(progress), stack


def _watch(progress: Progress, stack: contextlib.ExitStack, database: Database) -> None:
    progress.live = lambda ids: reachable_live_values(database, ids)
    stack.enter_context(watching_unmeasured(database, progress.running, progress.notify))


@contextlib.contextmanager
def interrupted() -> Iterator[None]:
    """Turn Ctrl-C into exit status 1, after all runs have stopped."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(1) from None


def show(progress: Progress, event: Event, output: OutputCopies | None = None) -> None:
    """Show an event of the schedule, and start or end the copy of a run's output."""
    if event.kind in ("started", "attached"):
        progress.started(event.run_id, event.label, event.name, attached=event.kind == "attached")
        if output is not None:
            output.started(event.run_id)
    elif event.kind in ("ended", "lost"):
        if output is not None:
            output.ended(event.run_id)
        progress.ended(event.run_id, event.label, event.name, event.status, event.seconds, event.message)
    elif event.kind == "note":
        progress.notify(escape(f"{event.label} {event.message}".strip()))
    else:
        progress.notify(f"[yellow]![/] {escape(f'{event.label} {event.message}'.strip())}")
