"""Runs that have just ended, whose last samples are not in the database yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.processes import is_alive
from hypergauge.sql.queries.summaries import just_ended, unsummarised
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["await_figures"]

# After its end a run is waited for no longer than this.
_SETTLE_SECONDS = 12.0
_LOOK_SECONDS = 0.1
# What takes no longer than this needs no word.
_QUIET_SECONDS = 1.0


def await_figures(
    connection: Connection, settings: Settings, selectors: Sequence[str], say: Callable[[str], None] = lambda _: None
) -> bool:
    """Wait until the collector has written, and the supervisor delivered, what runs had to say last; return whether they have.

    Only runs of this home that have ended a few seconds ago are waited for: `bench run` returns before this is done. `say` is
    told of a wait that is long or in vain.
    """
    began, told = time.monotonic(), False
    ids = [run_id for run_id in just_ended(connection, _SETTLE_SECONDS) if RunFolder.find(settings.home, run_id)]
    if ids and selectors:
        asked = {run.run_id for run in select_runs(connection, selectors, every_attempt=True)}
        ids = [run_id for run_id in ids if run_id in asked]
    while left := [run_id for run_id in ids if _delivers(settings, run_id)] or unsummarised(connection, ids):
        ids = [run_id for run_id in ids if run_id in just_ended(connection, _SETTLE_SECONDS)]
        if not ids:
            say(f"the last figures of {_shown(left)} have not arrived yet")
            return False
        if not told and time.monotonic() - began > _QUIET_SECONDS:
            told = True
            say(f"waiting for the last figures of {_shown(left)}")
        time.sleep(_LOOK_SECONDS)
    return True


def _delivers(settings: Settings, run_id: str) -> bool:
    """Return whether the supervisor of a run of this host is still delivering what it left."""
    folder = RunFolder.find(settings.home, run_id)
    if folder is None or folder.delivered or (state := folder.state()) is None:
        return False
    return is_alive(state.pid, state.created)


def _shown(run_ids: Sequence[str]) -> str:
    return f"run {run_ids[0][:8]}" if len(run_ids) == 1 else f"{len(run_ids)} runs"
