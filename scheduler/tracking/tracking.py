"""Client of the MLflow tracking server.

Requests during runs are plain REST (`hypergauge.scheduler.tracking.mlflow_rest`), because importing MLflow takes 1 s.
MLflow's own client is imported only to read artifacts, to upload them to other servers, and to remove runs.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import secret
from hypergauge.core.errors import TrackingUnavailable
from hypergauge.scheduler.tracking.artifacts import ArtifactClient, translated_errors
from hypergauge.scheduler.tracking.mlflow_rest import Refused, TrackedExperiment, TrackedRun
from hypergauge.scheduler.tracking.summary_metrics import is_summary_metric
from hypergauge.sql.ingest.limits import storable
from hypergauge.sql.ingest.software import SoftwareMetric

__all__ = ["OWN_TAG", "Tracking"]

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when MLflow is imported

# Otherwise a client accesses the bucket behind the server directly, which it may not reach.
_THROUGH_THE_SERVER = {
    "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false",
    "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false",
}
# For this process only; MLflow reads them on demand.
_VARIABLES = {
    **_THROUGH_THE_SERVER,
    # An unreachable server costs seconds, not minutes, since delivery is retried later.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    # Standard output is for results; `bench list` shows runs.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_SET_HERE = frozenset(_VARIABLES.keys() - os.environ.keys())
os.environ.update({name: _VARIABLES[name] for name in _SET_HERE})

# Login of MLflow, here and in runs, which cannot read it from files.
_LOGIN = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")

_STATUSES = {"finished": "FINISHED", "stopped": "KILLED"}
# Largest numbers of items in one REST request.
_PARAMS_AT_ONCE = 100
_EXPERIMENTS_AT_ONCE = _RUNS_AT_ONCE = 1000
# Longest names and values in characters, which MLflow's database columns have too.
_LONGEST_KEY = _LONGEST_NAME = 250
_LONGEST_PARAM, _LONGEST_TAG = 6000, 8000
_MOST_DELETED = 1000
# Tag with the run id, on the MLflow run that the scheduler creates and on those that the script creates.
_RUN_TAG = "hypergauge.run_id"
# Tag with the run's label, only on the MLflow run that the scheduler creates.
OWN_TAG = "hypergauge.run"
_NESTED_TAG = "mlflow.parentRunId"


class Tracking(ArtifactClient):
    """Client of a tracking server, for the runs of the scheduler.

    Attributes
    ----------
    own_variables
        Names of the variables that this process has set for itself, and that runs must not inherit.
    """

    own_variables = _SET_HERE

    def __init__(self, uri: str) -> None:
        os.environ.update({name: value for name in _LOGIN if (value := secret(name))})
        super().__init__(uri)
        self._experiments: dict[str, TrackedExperiment] = {}
        self._notices: list[str] = []
        self._last: dict[tuple[str, str], float] = {}

    def answers(self, timeout: float) -> bool:
        """Return whether the server answers within `timeout` seconds, even if it requires a login."""
        # The request has no secrets, so only later requests need to verify the certificate.
        context = ssl._create_unverified_context()  # noqa: S323
        try:
            address = f"{without_login(self.uri).rstrip('/')}/health"
            with urllib.request.urlopen(address, timeout=timeout, context=context):  # noqa: S310 - as it is configured
                return True
        except urllib.error.HTTPError as error:
            with error:
                return error.code < 500
        except OSError:
            return False

    def create_run(
        self,
        run_id: str,
        experiment: str,
        name: str,
        params: Mapping[str, str],
        tags: Mapping[str, str],
        started_at: float | None = None,
    ) -> str:
        """Create the MLflow run of `run_id` in `experiment`, with its parameters; return MLflow's id.

        `started_at` is its begin in Unix seconds, by default now.

        Raises
        ------
        TrackingUnavailable
            The server does not answer, or refuses the request.
        """
        request = {
            "experiment_id": self._experiment(experiment).experiment_id,
            "user_id": "unknown",
            "run_name": _cut(name, _LONGEST_NAME),
            "start_time": int((started_at or time.time()) * 1000),
            "tags": _pairs({**tags, _RUN_TAG: run_id}, _LONGEST_TAG),
        }
        try:
            created = self._rest.post("runs/create", request)
        except Refused:
            self._experiments.pop(experiment, None)  # it may have been deleted since
            if (again := self._experiment(experiment).experiment_id) == request["experiment_id"]:
                raise
            created = self._rest.post("runs/create", {**request, "experiment_id": again})
        mlflow_run_id: str = created["run"]["info"]["run_id"]
        self.log_params(mlflow_run_id, params)
        return mlflow_run_id

    def find_run(self, run_id: str) -> str | None:
        """Return MLflow's id of the run that the scheduler has created for `run_id`; ``None`` if there is none."""
        return next((run.mlflow_run_id for run in self.runs_of(run_id) if OWN_TAG in run.tags), None)

    def log_params(self, mlflow_run_id: str, params: Mapping[str, str]) -> None:
        """Log the parameters of a run; skip those that MLflow refuses for their name or an earlier value."""
        entities = _pairs(params, _LONGEST_PARAM)
        for start in range(0, len(entities), _PARAMS_AT_ONCE):
            batch = entities[start : start + _PARAMS_AT_ONCE]
            if not self._log_batch(mlflow_run_id, batch):
                for param in batch:
                    self._log_batch(mlflow_run_id, [param])

    def _log_batch(self, mlflow_run_id: str, params: Sequence[Mapping[str, str]]) -> bool:
        """Log parameters, all or none; return whether MLflow has accepted them."""
        try:
            self._rest.post("runs/log-batch", {"run_id": mlflow_run_id, "params": params})
        except Refused as error:
            if error.code != "INVALID_PARAMETER_VALUE":
                raise
            return False
        return True

    def log_metrics(self, mlflow_run_id: str, metrics: Mapping[str, float], at: float) -> bool:
        """Log metrics of a run at `at` (Unix seconds), even after its end; return whether MLflow has the run, undeleted.

        Raises
        ------
        TrackingUnavailable
            The server does not answer, or refuses the request.
        """
        logged = [
            {"key": key, "value": value, "timestamp": int(at * 1000), "step": 0} for key, value in metrics.items()
        ]
        try:
            self._rest.post("runs/log-batch", {"run_id": mlflow_run_id, "metrics": logged})
        except Refused as error:
            if error.code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "INVALID_STATE"):
                raise
            return False
        return True

    def variables(
        self, run_id: str, mlflow_run_id: str | None, experiment: str, words: Sequence[str], directory: Path
    ) -> dict[str, str]:
        """Return the variables with which a command logs to its MLflow run, and tags runs that it creates itself.

        Without `mlflow_run_id` the script creates its own run, in the same experiment.

        MLflow refuses to resume a run in a script that sets another experiment. Scripts that call ``set_experiment``
        therefore get no run id; they create their own runs, which the tag identifies.
        """
        login = {name: os.environ[name] for name in _LOGIN if name in os.environ}  # containers have none of these
        variables = {
            **{name: os.environ[name] for name in _THROUGH_THE_SERVER},
            "MLFLOW_TRACKING_URI": self.uri,
            "MLFLOW_RUN_CONTEXT": json.dumps({_RUN_TAG: run_id}),
            **login,
        }
        scripts = [directory / word for word in words if word.endswith(".py")]
        if any(script.is_file() and b"set_experiment" in script.read_bytes() for script in scripts):
            return variables
        if mlflow_run_id is None:
            known = self._experiments.get(experiment)
            return {**variables, "MLFLOW_EXPERIMENT_NAME": known.name if known else _cut(experiment, _LONGEST_NAME)}
        return {**variables, "MLFLOW_RUN_ID": mlflow_run_id}

    def new_metrics(self, run_id: str, *, everything: bool = False) -> list[SoftwareMetric]:
        """Return the values of metrics whose latest value has changed since the last call, or of all metrics.

        The metrics of `run_id` are all that its script has logged, except those of nested MLflow runs. Each changed
        metric comes with its full history; storage skips known values.
        """
        return self.metrics_of(self.runs_of(run_id), everything=everything)

    def metrics_of(self, found: Sequence[TrackedRun], *, everything: bool = False) -> list[SoftwareMetric]:
        """Return the values of metrics like `new_metrics`, for the runs that `runs_of` has found."""
        latest = {
            (run.mlflow_run_id, key): value
            for run in found
            if _NESTED_TAG not in run.tags
            for key, value in run.metrics.items()
            if not is_summary_metric(key)  # summaries come from the database
        }
        metrics = [
            SoftwareMetric(key, metric["step"], metric["timestamp"] / 1000, metric["value"])
            for (mlflow_run_id, key), value in latest.items()
            if everything or self._last.get((mlflow_run_id, key)) != value
            for metric in self._history(mlflow_run_id, key)
        ]
        self._last |= latest
        return metrics

    def _history(self, mlflow_run_id: str, key: str) -> Iterator[dict[str, Any]]:
        request = {"run_id": mlflow_run_id, "metric_key": key}
        return self._rest.pages("GET", "metrics/get-history", request, "metrics")

    def finish(
        self,
        found: Sequence[TrackedRun],
        mlflow_run_id: str,
        status: str,
        ended_at: float,
        artifacts: Iterable[Path],
        tags: Mapping[str, str],
        tensors: Iterable[Path] = (),
    ) -> None:
        """Upload artifacts and tags to the run, and close the runs that `runs_of` has found after its end.

        `status` is the status in the scheduler's words, such as ``stopped``; `ended_at` is the end in Unix seconds. The
        files `tensors` are uploaded to a folder of that name.
        """
        for path in artifacts:
            self._log_artifact(found, mlflow_run_id, path)
        for path in tensors:
            self._log_artifact(found, mlflow_run_id, path, "tensors")
        self._rest.post("runs/log-batch", {"run_id": mlflow_run_id, "tags": _pairs(tags, _LONGEST_TAG)})
        closed, end_time = _STATUSES.get(status, "FAILED"), int(ended_at * 1000)
        for run in found:
            # Runs that a killed script has left open are closed too; runs that it has closed keep their status.
            if run.status == "RUNNING" or run.mlflow_run_id == mlflow_run_id:
                self._rest.post("runs/update", {"run_id": run.mlflow_run_id, "status": closed, "end_time": end_time})

    def remove(self, run_id: str) -> None:
        """Remove the MLflow runs of `run_id`, if any, and their artifacts.

        MLflow keeps a deleted run's row until ``mlflow gc``.

        Raises
        ------
        TrackingUnavailable
            The server does not answer, or refuses the request.
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        with translated_errors():
            for run in self.runs_of(run_id):
                if self._client.list_artifacts(run.mlflow_run_id):  # MLflow cannot remove an empty artifact folder
                    get_artifact_repository(run.artifacts, tracking_uri=self.uri).delete_artifacts()
                self._client.delete_run(run.mlflow_run_id)

    def runs_of(self, run_id: str) -> list[TrackedRun]:
        """Return the MLflow runs with the tag of `run_id`, in all experiments."""
        pages = self._rest.pages("POST", "experiments/search", {"max_results": _EXPERIMENTS_AT_ONCE}, "experiments")
        request = {
            "experiment_ids": [one["experiment_id"] for one in pages],
            "filter": f"tags.`{_RUN_TAG}` = '{run_id}'",
            "max_results": _RUNS_AT_ONCE,
        }
        return [TrackedRun.read(run) for run in self._rest.post("runs/search", request)["runs"]]

    def take_notices(self) -> list[str]:
        """Return what users must know of the requests since the last call."""
        notices, self._notices = self._notices, []
        return notices

    def deletion(self, mlflow_run_id: str) -> str | None:
        """Return that a run or its experiment is deleted in MLflow, with the remedy; ``None`` if it is not."""
        with contextlib.suppress(Refused):
            run = self._rest.look_up("runs/get", {"run_id": mlflow_run_id})["run"]["info"]
            found = self._rest.look_up("experiments/get", {"experiment_id": run["experiment_id"]})
            experiment = TrackedExperiment.read(found)
            if experiment.is_deleted:
                return experiment.deletion
            if run["lifecycle_stage"] == "deleted":
                return f"its MLflow run is deleted: `mlflow runs restore --run-id {mlflow_run_id}` restores it"
        return None

    def _experiment(self, name: str) -> TrackedExperiment:
        """Return the experiment of a name; a new one in place of one that is deleted, whose name MLflow keeps."""
        if name not in self._experiments:
            numbers = itertools.chain([""], (f" ({number})" for number in range(2, _MOST_DELETED)))
            deleted: TrackedExperiment | None = None
            for suffix in numbers:
                free = _cut(name, _LONGEST_NAME - len(suffix)) + suffix
                experiment = self._known_experiment(free) or self._make_experiment(free)
                if not experiment.is_deleted:
                    break
                deleted = deleted or experiment
            else:
                raise TrackingUnavailable(f"MLflow: {_MOST_DELETED - 1} experiments of the name {name!r} are deleted")
            if deleted is not None:
                notice = f"{deleted.deletion}; runs go to {experiment.name!r}"
                self._notices += [] if notice in self._notices else [notice]
            self._experiments[name] = experiment
        return self._experiments[name]

    def _known_experiment(self, name: str) -> TrackedExperiment | None:
        try:
            found = self._rest.look_up("experiments/get-by-name", {"experiment_name": name})
        except Refused as error:
            if error.code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return TrackedExperiment.read(found)

    def _make_experiment(self, name: str) -> TrackedExperiment:
        try:
            return TrackedExperiment(str(self._rest.post("experiments/create", {"name": name})["experiment_id"]), name)
        except Refused:
            if (known := self._known_experiment(name)) is None:  # else another process has created it meanwhile
                raise
            return known


def _cut(text: str, longest: int) -> str:
    """Return a text as MLflow accepts it."""
    text = storable(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _pairs(values: Mapping[str, str], longest: int) -> list[dict[str, str]]:
    # Letters, digits and few other characters are valid in keys.
    cut = {storable(key)[:_LONGEST_KEY]: _cut(str(value), longest) for key, value in values.items()}
    return [{"key": key, "value": value} for key, value in cut.items()]
