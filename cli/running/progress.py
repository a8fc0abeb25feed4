"""Progress, interrupts and lost terminals of commands that run workloads."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from hypergauge.cli.running.passing import PassedOn
from hypergauge.cli.serving.stack import local_stack
from hypergauge.cli.serving.unmeasured import telling_unmeasured
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.dashboards.terminal.progress import Progress
from hypergauge.gpu import inventory
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.sql.queries.summaries import Live, live_figures, unsummarised
from hypergauge.sql.server.database import Database

if TYPE_CHECKING:
    from hypergauge.scheduler.events import Event
    from hypergauge.scheduler.schedule import Scheduler

__all__ = ["interrupted", "live", "scheduling", "settle", "show", "surviving_the_terminal"]

# How long to wait for the collector to have written what the runs had to say last.
_SETTLE_SECONDS = 10.0


@contextlib.contextmanager
def scheduling(
    settings: Settings, *, policy: Policy | None = None, quiet: bool = False, passes_on: bool = False
) -> Iterator[Scheduler]:
    """Provide a scheduler on the local stack, with its progress shown; it `passes_on` what runs write, or records it alone."""
    from hypergauge.scheduler.schedule import Scheduler
    from hypergauge.scheduler.tracking.tracking import Tracking

    with contextlib.ExitStack() as stack:
        stack.enter_context(interrupted())
        stack.enter_context(surviving_the_terminal())
        progress = stack.enter_context(Progress(quiet=quiet, lines=passes_on))
        output = PassedOn(settings.runs_dir) if passes_on else None
        local = stack.enter_context(local_stack(settings, progress.say))
        progress.live = lambda ids: live(local.database, ids)
        stack.enter_context(telling_unmeasured(local.database, progress.going, progress.say))
        yield Scheduler(
            database=local.database,
            settings=settings,
            tracking=Tracking(local.tracking_uri),
            inventory=inventory(settings.simulate, settings.home),
            report=lambda event: show(progress, event, output),
            policy=policy or Policy(),
        )


@contextlib.contextmanager
def interrupted() -> Iterator[None]:
    """Turn Ctrl-C, with which all has been stopped in order by now, into an exit status: something did not finish."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(1) from None


@contextlib.contextmanager
def surviving_the_terminal() -> Iterator[None]:
    """Go on when the terminal is closed, and write to nowhere from then on."""
    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]  # once closed, it is none any more

    def let_go(*_: object) -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in terminals:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    before = signal.signal(signal.SIGHUP, let_go)  # a handler, not SIG_IGN: that would be inherited by every run
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def show(progress: Progress, event: Event, output: PassedOn | None = None) -> None:
    """Show what a scheduler has to say, and what its runs do where there is an `output` for that."""
    if event.kind in ("started", "attached"):
        progress.started(event.run_id, event.label, event.name, attached=event.kind == "attached")
        if output is not None:
            output.started(event.run_id)
    elif event.kind in ("ended", "lost"):
        if output is not None:
            output.ended(event.run_id)
        progress.ended(event.run_id, event.label, event.name, event.status, event.seconds, event.message)
    elif event.kind == "note":
        progress.say(escape(f"{event.label} {event.message}".strip()))
    else:
        progress.say(f"[yellow]![/] {event.label} {escape(event.message)}")


def live(database: Database, run_ids: Sequence[str]) -> Mapping[str, Live]:
    """Return the newest figures of runs, where the database has them now."""
    try:
        with database.session() as connection:
            return live_figures(connection, run_ids)
    except BenchError:
        return {}


def settle(database: Database, run_ids: Sequence[str]) -> None:
    """Wait until the collector has written what these runs had to say last."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    with database.session() as connection:
        while unsummarised(connection, run_ids) and time.monotonic() < deadline:
            time.sleep(0.1)
