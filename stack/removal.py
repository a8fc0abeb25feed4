"""Removal of runs from MLflow, the database and this host."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence

from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.sql.runs import run_annotations
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection
from hypergauge.stack.services.local_stack import local_stack
from hypergauge.stack.services.tracking_server import own_tracking_server

__all__ = ["remove"]


def remove(connection: Connection, settings: Settings, runs: Sequence[RunInfo], notify: Callable[[str], None]) -> int:
    """Remove ended runs with all of their data, and return the number of removed samples.

    MLflow is first: if it refuses, the database still has the runs. `notify` receives messages on the start of the stack.
    """
    _remove_from_tracking(settings, [run for run in runs if run.mlflow_run_id], notify)
    samples = run_annotations.remove_runs(connection, [run.run_id for run in runs])
    for run in runs:
        if folder := RunFolder.find(settings.home, run.run_id):
            shutil.rmtree(folder.path, ignore_errors=True)
    return samples


def _remove_from_tracking(settings: Settings, runs: Sequence[RunInfo], notify: Callable[[str], None]) -> None:
    if not runs:
        return
    with contextlib.ExitStack() as stack:
        uri = settings.tracking_uri or ""
        if own_tracking_server(settings):
            uri = stack.enter_context(local_stack(settings, notify)).tracking_uri
        from hypergauge.scheduler.tracking.tracking import Tracking  # imports mlflow

        tracking = Tracking(uri)
        for run in runs:
            tracking.remove(run.run_id)
