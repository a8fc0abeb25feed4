"""Manifests of runs, from their folders on this host or from MLflow."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from hypergauge.core.errors import TrackingUnavailable
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.provenance.manifest import FILES, MANIFEST, read_manifest
from hypergauge.sql.runs.selection import RunInfo

__all__ = ["manifests_of"]

_ANSWER_SECONDS = 2.0


def manifests_of(home: Path, tracking_uri: str | None, runs: Sequence[RunInfo]) -> dict[str, dict[str, str]]:
    """Return the contents of runs' manifest files, by run id and name; unavailable manifests are left out."""
    folders = ((run.run_id, RunFolder.find(home, run.run_id)) for run in runs)
    found = {run_id: files for run_id, folder in folders if folder and (files := read_manifest(folder))}
    elsewhere = {run.run_id: run.mlflow_run_id for run in runs if run.run_id not in found and run.mlflow_run_id}
    if tracking_uri and elsewhere:
        found |= _tracked(tracking_uri, elsewhere)
    return found


def _tracked(uri: str, mlflow_run_ids: dict[str, str]) -> dict[str, dict[str, str]]:
    from hypergauge.scheduler.tracking.tracking import Tracking

    found: dict[str, dict[str, str]] = {}
    tracking = Tracking(uri)
    if tracking.answers(_ANSWER_SECONDS):
        for run_id, mlflow_run_id in mlflow_run_ids.items():
            with contextlib.suppress(TrackingUnavailable):
                files = tracking.artifacts(mlflow_run_id, FILES)
                if MANIFEST in files:
                    found[run_id] = files
    return found
