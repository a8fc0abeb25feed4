"""MLflow: the one module that speaks with it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

# A server that is away should cost seconds, not minutes: what is not delivered now is delivered later.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# Standard output is for results; which runs there are shows `bench list`.
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

from mlflow.entities import Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from bench.errors import TrackingUnavailable
from sql.software import SoftwareMetric

__all__ = ["Tracking"]

_STATUSES = {"finished": "FINISHED", "stopped": "KILLED"}
_PARAMS_AT_ONCE = 100  # what the REST interface takes in one request


class Tracking:
    """A tracking server, for the runs of the scheduler."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._client = MlflowClient(tracking_uri=uri)
        self._experiments: dict[str, str] = {}
        self._last: dict[tuple[str, str], float] = {}

    def create_run(self, experiment: str, name: str, params: Mapping[str, str], tags: Mapping[str, str]) -> str:
        """Open a run in `experiment`, with its parameters, and return its id.

        Raises
        ------
        TrackingUnavailable
            The server does not answer, or refuses.
        """
        with _wrapped():
            run = self._client.create_run(self._experiment(experiment), run_name=name, tags=dict(tags))
            run_id: str = run.info.run_id
            entities = [Param(key, value) for key, value in params.items()]
            for start in range(0, len(entities), _PARAMS_AT_ONCE):
                self._client.log_batch(run_id, params=entities[start : start + _PARAMS_AT_ONCE])
            return run_id

    def new_metrics(self, run_id: str, *, everything: bool = False) -> list[SoftwareMetric]:
        """Return the figures of metrics that have a new latest value since the last call, or of all of them.

        The history of such a metric comes whole: who stores it passes over what is known.
        """
        with _wrapped():
            latest: dict[str, float] = self._client.get_run(run_id).data.metrics
            changed = [key for key, value in latest.items() if everything or self._last.get((run_id, key)) != value]
            figures = [
                SoftwareMetric(key, metric.step, metric.timestamp / 1000, metric.value)
                for key in changed
                for metric in self._client.get_metric_history(run_id, key)
            ]
        self._last |= {(run_id, key): latest[key] for key in changed}
        return figures

    def finish(self, run_id: str, status: str, ended_at: float, artifacts: list[Path], tags: Mapping[str, str]) -> None:
        """Keep the artifacts, and close the run with a status of ours; `ended_at` in Unix seconds."""
        with _wrapped():
            for path in artifacts:
                if path.exists():
                    self._client.log_artifact(run_id, str(path))
            self._client.log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])
            self._client.set_terminated(run_id, _STATUSES.get(status, "FAILED"), end_time=int(ended_at * 1000))

    def _experiment(self, name: str) -> str:
        if name not in self._experiments:
            known = self._client.get_experiment_by_name(name)
            self._experiments[name] = known.experiment_id if known else self._client.create_experiment(name)
        return self._experiments[name]


@contextlib.contextmanager
def _wrapped() -> Iterator[None]:
    try:
        yield
    except (MlflowException, OSError) as error:  # requests' errors are OSErrors
        raise TrackingUnavailable(f"MLflow: {str(error).splitlines()[0]}") from error
