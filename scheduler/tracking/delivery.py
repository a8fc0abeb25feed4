"""Delivery of an ended run: output and whole tensors to MLflow; spans, tensors, profiles and software metrics to SQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypergauge.core.errors import TrackingUnavailable
from hypergauge.core.files.host_lock import HostLock
from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.core.output import whole_output
from hypergauge.scheduler import profilers
from hypergauge.scheduler.profilers.delivery import phases_of, store_reports
from hypergauge.scheduler.provenance.manifest import FILES
from hypergauge.scheduler.tracking.run_creation import RunRequest, create_late
from hypergauge.scheduler.tracking.spans import read_spans
from hypergauge.scheduler.tracking.tensors import deliver_tensors
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.ingest.software import store_software_metrics, store_spans
from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Connection

__all__ = ["deliver", "deliver_backlog", "deliver_recorded"]

# Timeout of the server's health check.
_TIMEOUT_SECONDS = 10.0


def deliver(
    connection: Connection,
    folder: RunFolder,
    tracking: Tracking | str | None,
    mlflow_run_id: str | None,
    end: RunEnd,
    notify: Callable[[str], None] = lambda _: None,
) -> bool:
    """Deliver the files of a run's folder; return whether all have arrived. Idempotent.

    If MLflow has not created a run in time, create it now. If another process holds the delivery lock of the run, leave
    the delivery to it. `notify` receives the reason of a failure.
    """
    with HostLock(f"delivery/{folder.run_id}") as lock:
        if not lock.take() or folder.delivered:
            return True
        deliver_recorded(connection, folder, notify)
        if tracking is not None:
            try:
                server = Tracking(tracking) if isinstance(tracking, str) else tracking
                _track(connection, folder, server, mlflow_run_id, end)
            except TrackingUnavailable as error:
                notify(str(error))
                return False
        folder.mark_delivered()
        return True


def deliver_backlog(
    connection: Connection,
    runs_dir: Path,
    experiment: int,
    tracking: Tracking | str | None,
    notify: Callable[[str], None] = lambda _: None,
) -> None:
    """Deliver ended runs of an experiment that earlier commands could not, because the tracking server was away."""
    server = Tracking(tracking) if isinstance(tracking, str) else tracking
    for run in runs.known_runs(connection, experiment):
        folder = RunFolder(runs_dir / run.run_id)
        if folder.delivered or (end := folder.end()) is None:
            continue
        if not deliver(connection, folder, server, run.mlflow_run_id, end, notify) and not (
            server is not None and server.answers(_TIMEOUT_SECONDS)
        ):
            return


def deliver_recorded(connection: Connection, folder: RunFolder, notify: Callable[[str], None] = lambda _: None) -> None:
    """Store the spans, tensors and profiles of a run in the database; `notify` receives why a profile could not be read."""
    spans = list(read_spans(folder.spans))
    store_spans(connection, folder.run_id, spans)
    deliver_tensors(connection, folder)
    store_reports(connection, folder, phases_of(spans), notify)


def _track(connection: Connection, folder: RunFolder, server: Tracking, mlflow_run_id: str | None, end: RunEnd) -> None:
    """Upload the files of a run to MLflow, and store its software metrics from MLflow in the database."""
    if not server.answers(_TIMEOUT_SECONDS):
        raise TrackingUnavailable("MLflow does not answer")
    if mlflow_run_id is None:
        if (request := RunRequest.read(folder)) is None:
            return
        mlflow_run_id = create_late(server, request, end.started_at)
        runs.set_mlflow_run(connection, folder.run_id, mlflow_run_id)
    found = server.runs_of(folder.run_id)
    store_software_metrics(connection, folder.run_id, server.metrics_of(found, everything=True))
    tags = {"hypergauge.status": end.status, "hypergauge.reason": end.reason or ""}
    with whole_output(folder.output) as output:
        left = [output, folder.spans, *(folder.path / name for name in FILES), *profilers.reports(folder)]
        tensors = sorted(path for path in folder.saved_tensors.glob("*.npy") if path.is_file())
        server.finish(found, mlflow_run_id, end.status, end.ended_at, left, tags, tensors)
