"""Artifacts of MLflow runs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hypergauge.core.addresses import without_login
from hypergauge.core.errors import TrackingUnavailable
from hypergauge.scheduler.tracking.mlflow_rest import MlflowRest, TrackedRun

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

__all__ = ["ArtifactClient", "translated_errors"]


class ArtifactClient:
    """Client for the artifacts of a tracking server's runs."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._rest = MlflowRest(uri)

    @cached_property
    def _client(self) -> MlflowClient:
        from mlflow.tracking import MlflowClient

        return MlflowClient(tracking_uri=self.uri)

    def _log_artifact(self, found: Sequence[TrackedRun], mlflow_run_id: str, path: Path, below: str = "") -> None:
        location = next((run.artifacts for run in found if run.mlflow_run_id == mlflow_run_id), "")
        if not self._rest.takes_artifacts(location):
            with translated_errors("MLflow does not keep artifacts"):
                self._client.log_artifact(mlflow_run_id, str(path), below or None)
            return
        try:
            self._rest.put_artifact(location, path, below)
        except TrackingUnavailable as error:
            raise TrackingUnavailable(f"MLflow does not keep artifacts: {error}") from error

    def artifacts(self, mlflow_run_id: str, names: Collection[str]) -> dict[str, str]:
        """Return the text of a run's artifacts among `names`, by name; missing ones are left out.

        Raises
        ------
        TrackingUnavailable
            The server does not answer, does not know the run, or has lost the artifacts.
        """
        with translated_errors(), tempfile.TemporaryDirectory() as folder:
            there = [one.path for one in self._client.list_artifacts(mlflow_run_id) if one.path in names]
            paths = {name: self._client.download_artifacts(mlflow_run_id, name, folder) for name in there}
            return {name: Path(path).read_text(encoding="utf-8", errors="replace") for name, path in paths.items()}

    @contextlib.contextmanager
    def artifact(self, mlflow_run_id: str, name: str) -> Iterator[Path | None]:
        """Provide a temporary copy of an artifact; ``None`` if the run has no such artifact.

        Raises
        ------
        TrackingUnavailable
            See `artifacts`.
        """
        with tempfile.TemporaryDirectory() as folder:
            with translated_errors():
                there = any(one.path == name for one in self._client.list_artifacts(mlflow_run_id))
                path = Path(self._client.download_artifacts(mlflow_run_id, name, folder)) if there else None
            yield path


@contextlib.contextmanager
def translated_errors(what: str = "MLflow") -> Iterator[None]:
    """Raise MLflow's errors as TrackingUnavailable."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError) as error:  # base class of the errors of requests
        raise TrackingUnavailable(f"{what}: {without_login(str(error)).splitlines()[0]}") from error
