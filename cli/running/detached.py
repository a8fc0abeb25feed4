"""Schedules that go on in the background: ``bench schedule --detach``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import typer
from rich.markup import escape

from hypergauge.cli.common import console
from hypergauge.core.config.settings import Settings
from hypergauge.core.files import private
from hypergauge.sql.runs.experiments import being_scheduled, require_unscheduled
from hypergauge.sql.server.database import Database

__all__ = ["DETACH", "in_background"]

DETACH = "--detach"
_LOOK_SECONDS = 0.1


def in_background(settings: Settings, experiments: Collection[int], words: Sequence[str]) -> None:
    """Start this command again in the background, and return once it schedules the experiments.

    It has a session of its own, so it outlives the terminal. Its output goes to a file in ``BENCH_HOME/log``.

    Parameters
    ----------
    words
        Words of this command, after ``bench``.

    Raises
    ------
    BadRequest
        Another command schedules one of the experiments.
    """
    with Database(settings) as database:
        with database.session() as connection:
            for experiment in experiments:
                require_unscheduled(connection, experiment)
        log = settings.log_dir / f"schedule-{min(experiments)}.log"
        private.make_folder(settings.log_dir)
        with private.opened(log, "ab") as file:
            begins = file.tell()
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hypergauge.cli", *(word for word in words if word != DETACH)],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip
        status = _ended_before_it_began(process, database, experiments)
    first = min(experiments)
    if status is None:
        console().print(f"Runs in the background: bench watch {first} shows it, bench stop {first} ends it.")
        console().print(escape(f"Its output is in {log}"), soft_wrap=True)
        return
    console().print(escape(_since(log, begins)), soft_wrap=True, end="")
    raise typer.Exit(status)


def _ended_before_it_began(
    process: subprocess.Popen[bytes], database: Database, experiments: Collection[int]
) -> int | None:
    """Return the exit status of a command that ended before or during its start; ``None`` once it schedules."""
    with database.session() as connection:
        while (status := process.poll()) is None:
            if any(map(partial(being_scheduled, connection), experiments)):
                return None
            time.sleep(_LOOK_SECONDS)
    return status


def _since(log: Path, begins: int) -> str:
    with log.open("rb") as file:
        file.seek(begins)
        return file.read().decode(errors="replace")
