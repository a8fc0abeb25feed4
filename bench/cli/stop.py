"""The command ``stop``."""

from __future__ import annotations

import platform
import time
from typing import Annotated

import typer
from rich.markup import escape

from bench.cli.common import console, reading
from bench.config import Settings
from bench.errors import BadRequest
from bench.runfolder import RunFolder
from scheduler.supervision import ask_to_stop
from sql.selection import select_runs

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(stop)


def stop(selector: Annotated[str, typer.Argument(help="A run or a workload.")]) -> None:
    """End runs, with everything they started, and say so in their status."""
    settings = Settings.load()
    with reading(settings) as connection:
        running = [one for one in select_runs(connection, [selector]) if one.status == "running"]
    if not running:
        raise BadRequest(f"nothing of {selector} is running")
    for one in running:
        if one.host != platform.node():
            raise BadRequest(f"run {one.label} goes on at host {one.host}; stop it there")
        if not ask_to_stop(RunFolder(settings.runs_dir / one.run_id)):
            raise BadRequest(f"run {one.label} has lost its supervisor; `bench schedule` on its file ends it")
        console().print(f"{one.label} {escape(one.name)} is asked to stop")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(
        RunFolder(settings.runs_dir / one.run_id).end() is None for one in running
    ):
        time.sleep(0.1)
