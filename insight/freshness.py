"""Runs that have just ended, whose last samples are not in the database yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.listing import counted
from hypergauge.core.system.processes import is_alive
from hypergauge.sql.queries.summaries import just_ended, unsummarised
from hypergauge.sql.runs.selection import runs_by_id, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["await_values"]

# Longest wait after the end of a run.
_SETTLE_SECONDS = 12.0
_LOOK_SECONDS = 0.1
# Shorter waits are silent.
_QUIET_SECONDS = 1.0


def await_values(
    connection: Connection, settings: Settings, selectors: Sequence[str], notify: Callable[[str], None] = lambda _: None
) -> bool:
    """Wait for the last samples and metrics of runs; return whether they have arrived.

    The collector writes samples and the supervisor delivers metrics after `bench run` has returned. Only runs of this home
    that ended a few seconds ago count. `notify` gets a message about a long or failed wait.
    """
    began, announced = time.monotonic(), False
    ids = [run_id for run_id in just_ended(connection, _SETTLE_SECONDS) if RunFolder.find(settings.home, run_id)]
    if ids and selectors:
        requested = {run.run_id for run in select_runs(connection, selectors, every_attempt=True)}
        ids = [run_id for run_id in ids if run_id in requested]
    while left := [run_id for run_id in ids if _delivers(settings, run_id)] or unsummarised(connection, ids):
        ids = [run_id for run_id in ids if run_id in just_ended(connection, _SETTLE_SECONDS)]
        if not ids:
            notify(f"the last metrics of {_shown(connection, left)} have not arrived yet")
            return False
        if not announced and time.monotonic() - began > _QUIET_SECONDS:
            announced = True
            notify(f"waiting for the last metrics of {_shown(connection, left)}")
        time.sleep(_LOOK_SECONDS)
    return True


def _delivers(settings: Settings, run_id: str) -> bool:
    """Return whether the supervisor of a run of this host is still delivering metrics."""
    folder = RunFolder.find(settings.home, run_id)
    if folder is None or folder.delivered or (state := folder.state()) is None:
        return False
    return is_alive(state.pid, state.created)


def _shown(connection: Connection, run_ids: Sequence[str]) -> str:
    if len(run_ids) > 1:
        return counted(len(run_ids), "run")
    run = runs_by_id(connection, run_ids).get(run_ids[0])
    return run.full_label if run else f"run {run_ids[0][:8]}"
