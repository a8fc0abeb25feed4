"""Command ``stop``."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import SELECTOR, console, primary
from hypergauge.cli.help import Commands
from hypergauge.core.config.settings import Settings
from hypergauge.scheduler.requests.stopping import stop_runs
from hypergauge.sql.runs.selection import RunInfo

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench stop 1/3/2": "one run",
            "bench stop 1": "all runs of experiment 1, and its schedule",
        }
    )(stop)


def stop(selector: Annotated[str, typer.Argument(metavar="SELECTOR", help=SELECTOR)]) -> None:
    """Stop runs with all of their processes. Queued runs do not begin.

    A whole experiment is not scheduled further either; its schedule continues with other experiments.
    """
    settings = Settings.load()
    with primary(settings) as connection:
        stop_runs(connection, settings, selector, getpass.getuser(), _notify)


def _notify(message: str, run: RunInfo | None) -> None:
    console().print(f"{run.label} {escape(run.name)} {message}" if run else message)
