"""Command ``watch``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from hypergauge.cli.common import Selectors, as_json, console
from hypergauge.cli.help import Commands
from hypergauge.core.config.settings import Settings
from hypergauge.dashboards.terminal.live import changes, live_table, summary
from hypergauge.insight.watch import Watched
from hypergauge.insight.watch import watch as watch_runs
from hypergauge.sql.server.database import Database

__all__ = ["register"]

# Exit status of shells after Ctrl-C.
_INTERRUPTED = 130


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench watch 1": "all runs of experiment 1",
            "bench watch 1/3/2 --json > live.jsonl": "values of a run, for a program",
        }
    )(watch)


def watch(
    selectors: Selectors,
    json: Annotated[bool, typer.Option("--json", help="Write a line of JSON each second.")] = False,
) -> None:
    """Show running runs live, until all have ended. Ctrl-C leaves and stops nothing."""
    out = console()
    show = _json if json else _screen if out.is_terminal else _lines
    try:
        with Database(Settings.load(), reading=True) as database:
            failed = show(out, watch_runs(database, selectors))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    if failed:
        raise typer.Exit(1)


def _screen(out: Console, updates: Iterator[Watched]) -> bool:
    seen = next(updates)
    with Live(live_table(seen, out.width, out.height), console=out, auto_refresh=False) as display:
        for seen in updates:
            display.update(live_table(seen, out.width, out.height), refresh=True)
    out.print(summary(seen))
    return seen.failed


def _lines(out: Console, updates: Iterator[Watched]) -> bool:
    before = None
    for seen in updates:
        for line in changes(before, seen):
            out.print(f"{time.strftime('%H:%M:%S')} {line}", soft_wrap=True)
        before = seen
    return before is not None and before.failed


def _json(_: Console, updates: Iterator[Watched]) -> bool:
    failed = False
    for seen in updates:
        as_json(seen.as_dict(), line=True)
        failed = seen.failed
    return failed
