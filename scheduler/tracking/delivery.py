"""Delivery of an ended run: output and whole tensors to MLflow; spans, tensors, profiles and software metrics to SQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypergauge.core.errors import TrackingUnavailable
from hypergauge.core.files.host_lock import HostLock
from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.core.output import whole_output
from hypergauge.scheduler import profilers
from hypergauge.scheduler.containment import contained
from hypergauge.scheduler.profilers.delivery import phases_of, store_reports
from hypergauge.scheduler.provenance.manifest import FILES
from hypergauge.scheduler.tracking.mlflow_rest import Refused
from hypergauge.scheduler.tracking.run_creation import RunRequest, create_late
from hypergauge.scheduler.tracking.spans import read_spans
from hypergauge.scheduler.tracking.tensors import deliver_tensors
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.ingest.software import SpanRecord, store_software_metrics, store_spans
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
            server = Tracking(tracking) if isinstance(tracking, str) else tracking
            try:
                with contained(f"MLflow does not have all of run {folder.run_id[:8]}", notify):
                    _track(connection, folder, server, mlflow_run_id, end, notify)
            except TrackingUnavailable as error:
                deletion = server.deletion(mlflow_run_id) if mlflow_run_id and isinstance(error, Refused) else None
                notify(deletion or str(error))
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
    run = f"of run {folder.run_id[:8]} are not in the database"
    spans: list[SpanRecord] = []
    with contained(f"the spans {run}", notify):
        spans = list(read_spans(folder.spans))
        store_spans(connection, folder.run_id, spans)
    with contained(f"the tensors {run}", notify):
        deliver_tensors(connection, folder)
    store_reports(connection, folder, phases_of(spans), notify)


def _track(
    connection: Connection,
    folder: RunFolder,
    server: Tracking,
    mlflow_run_id: str | None,
    end: RunEnd,
    notify: Callable[[str], None],
) -> None:
    """Upload the files of a run to MLflow, and store its software metrics from MLflow in the database."""
    if not server.answers(_TIMEOUT_SECONDS):
        raise TrackingUnavailable("MLflow does not answer")
    if mlflow_run_id is None:
        if (request := RunRequest.read(folder)) is None:
            return
        mlflow_run_id = create_late(server, request, end.started_at)
        for notice in server.take_notices():
            notify(notice)
        runs.set_mlflow_run(connection, folder.run_id, mlflow_run_id)
    found = server.runs_of(folder.run_id)
    with contained(f"the logged metrics of run {folder.run_id[:8]} are not in the database", notify):
        store_software_metrics(connection, folder.run_id, server.metrics_of(found, everything=True))
    tags = {"hypergauge.status": end.status, "hypergauge.reason": end.reason or ""}
    with whole_output(folder.output) as output:
        left = [output, folder.spans, *(folder.path / name for name in FILES), *profilers.written_reports(folder)]
        tensors = sorted(folder.saved_tensors.glob("*.npy"))
        artifacts, tensors = [
            [path for path in paths if _is_readable(folder, path, notify)] for paths in (left, tensors)
        ]
        server.finish(found, mlflow_run_id, end.status, end.ended_at, artifacts, tags, tensors)


def _is_readable(folder: RunFolder, path: Path, notify: Callable[[str], None]) -> bool:
    """Return whether a file exists and can be read; a container may have written it as another user."""
    if not path.is_file():
        return False
    try:
        path.open("rb").close()
    except OSError as error:
        notify(f"MLflow does not get {path.name} of run {folder.run_id[:8]}: {error.strerror}")
        return False
    return True
