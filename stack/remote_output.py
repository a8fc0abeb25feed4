"""Output of a run of another host, from MLflow, which gets it at the end of the run."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import NoData
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.stack.services.tracking_server import own_tracking_server

__all__ = ["OUTPUT", "remote_output"]

OUTPUT = "output.log"


@contextlib.contextmanager
def remote_output(settings: Settings, run: RunInfo) -> Iterator[Path]:
    """Provide a copy of the output of a run whose folder is not here.

    Raises
    ------
    NoData
        The run has not ended, or MLflow does not have its output.
    """
    where = _where(settings, run)
    if run.ended_at is None or run.mlflow_run_id is None or own_tracking_server(settings):
        raise NoData(where)
    from hypergauge.scheduler.tracking.tracking import Tracking  # imports mlflow

    with Tracking(settings.tracking_uri or "").artifact(run.mlflow_run_id, OUTPUT) as path:
        if path is None:
            raise NoData(f"{where}, and MLflow does not have it")
        yield path


def _where(settings: Settings, run: RunInfo) -> str:
    ran = "runs" if run.ended_at is None else "ran"
    if run.host == platform.node():
        return f"the output of {run.label} is not in {settings.home}; it was imported, or {ran} with another BENCH_HOME"
    return f"the output of {run.label} is not on this host; it {ran} on {run.host}"
