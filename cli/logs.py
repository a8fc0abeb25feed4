"""Command ``logs``."""

from __future__ import annotations

import contextlib
import shutil
import sys
from typing import Annotated

import typer

from hypergauge.cli.common import Json, Run, as_json, reading
from hypergauge.cli.help import Commands
from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.output import OutputReader
from hypergauge.dashboards.terminal.output import copy_output
from hypergauge.scheduler.supervision import may_write
from hypergauge.sql.runs.selection import RunInfo, select_run
from hypergauge.stack.remote_output import remote_output

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench logs 1/3/2": "what the run has written",
            "bench logs 1/3/2 -f": "and what it writes until it ends",
        }
    )(logs)


def logs(
    run: Run,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue until the run ends.")] = False,
    json: Json = False,
) -> None:
    """Write a run's output to standard output."""
    settings = Settings.load()
    with reading(settings) as connection:
        chosen = select_run(connection, run)
    folder = RunFolder.find(settings.home, chosen.run_id)
    if folder is None:
        _from_tracking(settings, chosen, json)
        return
    with contextlib.closing(OutputReader(folder.output)) as reader:
        if json:
            output = b"".join(reader.new())
            as_json({"run": chosen.label, "run_id": chosen.run_id, "output": output.decode(errors="replace")})
        else:
            copy_output(reader, lambda: follow and may_write(folder))


def _from_tracking(settings: Settings, run: RunInfo, json: bool) -> None:
    with remote_output(settings, run) as path:
        if json:
            as_json({"run": run.label, "run_id": run.run_id, "output": path.read_text(errors="replace")})
            return
        with path.open("rb") as output:
            shutil.copyfileobj(output, sys.stdout.buffer)
        sys.stdout.buffer.flush()
