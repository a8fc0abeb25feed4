"""Schedules that go on in the background: ``bench schedule --detach``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.files import private
from hypergauge.sql.runs.experiments import being_scheduled, require_unscheduled
from hypergauge.sql.server.database import Database

__all__ = ["Background", "in_background"]

_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Background:
    """Command in the background.

    Attributes
    ----------
    log
        File with its output.
    status
        Its exit status if it ended before it scheduled anything, else ``None``.
    output
        Its output until then.
    """

    log: Path
    status: int | None = None
    output: str = ""


def in_background(settings: Settings, experiments: Collection[int], words: Sequence[str]) -> Background:
    """Start ``bench`` with these words, and return once it schedules the experiments.

    It has a session of its own, so it outlives the terminal. Its output goes to a file in ``BENCH_HOME/log``.

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
                [sys.executable, "-P", "-m", "hypergauge.cli", *words],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip
        status = _ended_before_it_began(process, database, experiments)
    return Background(log) if status is None else Background(log, status, _since(log, begins))


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
