"""Client of the MLflow tracking server.

What goes on beside runs is asked in REST (`hypergauge.scheduler.tracking.mlflow_rest`), so that nobody waits for MLflow's import; MLflow's own
client is imported for artifacts of other servers, and for removing runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import secret
from hypergauge.core.errors import TrackingUnavailable
from hypergauge.scheduler.tracking.mlflow_rest import MlflowRest, Refused, TrackedRun
from hypergauge.scheduler.tracking.summary_metrics import is_summary_metric
from hypergauge.sql.ingest.software import SoftwareMetric

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

__all__ = ["OWN_TAG", "Tracking"]

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when MLflow is imported

# A client that is told of a bucket behind the server would go to it by itself, wherever that is: it need not reach it.
_THROUGH_THE_SERVER = {
    "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false",
    "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false",
}
# For this process alone; MLflow reads them when it needs them.
_VARIABLES = {
    **_THROUGH_THE_SERVER,
    # A server that is away should cost seconds, not minutes: what is not delivered now is delivered later.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    # Standard output is for results; which runs there are shows `bench list`.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_SET_HERE = frozenset(_VARIABLES.keys() - os.environ.keys())
os.environ.update({name: _VARIABLES[name] for name in _SET_HERE})

# How MLflow logs in, here and in runs. It reads no files itself.
_LOGIN = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")

_STATUSES = {"finished": "FINISHED", "stopped": "KILLED"}
# What the REST interface takes, or gives, in one request.
_PARAMS_AT_ONCE = 100
_EXPERIMENTS_AT_ONCE = _RUNS_AT_ONCE = 1000
# Ties MLflow's runs to one of ours: the run that we open for it, and those that its script opens besides.
_RUN_TAG = "hypergauge.run_id"
# Which of them is ours, by its label.
OWN_TAG = "hypergauge.run"
_NESTED_TAG = "mlflow.parentRunId"


class Tracking:
    """A tracking server, for the runs of the scheduler.

    Attributes
    ----------
    own_variables
        Names of the variables that this process has set for itself, and that are nothing to a run.
    """

    own_variables = _SET_HERE

    def __init__(self, uri: str) -> None:
        self.uri = uri
        os.environ.update({name: value for name in _LOGIN if (value := secret(name))})
        self._rest = MlflowRest(uri)
        self._experiments: dict[str, str] = {}
        self._last: dict[tuple[str, str], float] = {}

    @cached_property
    def _client(self) -> MlflowClient:
        from mlflow.tracking import MlflowClient

        return MlflowClient(tracking_uri=self.uri)

    def answers(self, timeout: float) -> bool:
        """Return whether the server says anything within `timeout` seconds, be it that one has to log in."""
        # It is sent nothing, so its certificate matters only to the requests that follow.
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
        """Open a run for ours of the id `run_id` in `experiment`, with its parameters; return MLflow's id.

        It begins now, or when it did (Unix seconds).

        Raises
        ------
        TrackingUnavailable
            The server does not answer, or refuses.
        """
        request = {
            "experiment_id": self._experiment(experiment),
            "user_id": "unknown",
            "run_name": name,
            "start_time": int((started_at or time.time()) * 1000),
            "tags": _pairs({**tags, _RUN_TAG: run_id}),
        }
        mlflow_run_id: str = self._rest.ask("runs/create", request)["run"]["info"]["run_id"]
        self.log_params(mlflow_run_id, params)
        return mlflow_run_id

    def find_run(self, run_id: str) -> str | None:
        """Return MLflow's id of the run that was opened for ours, ``None`` where there is none."""
        return next((run.mlflow_run_id for run in self.runs_of(run_id) if OWN_TAG in run.tags), None)

    def log_params(self, mlflow_run_id: str, params: Mapping[str, str]) -> None:
        """Log the parameters of a run; one that MLflow refuses, by its name or since it has another value, is left out."""
        entities = _pairs(params)
        for start in range(0, len(entities), _PARAMS_AT_ONCE):
            batch = entities[start : start + _PARAMS_AT_ONCE]
            if not self._log_batch(mlflow_run_id, batch):
                for param in batch:
                    self._log_batch(mlflow_run_id, [param])

    def _log_batch(self, mlflow_run_id: str, params: Sequence[Mapping[str, str]]) -> bool:
        """Return whether MLflow takes the parameters, all or none."""
        try:
            self._rest.ask("runs/log-batch", {"run_id": mlflow_run_id, "params": params})
        except Refused as error:
            if error.code != "INVALID_PARAMETER_VALUE":
                raise
            return False
        return True

    def log_metrics(self, mlflow_run_id: str, figures: Mapping[str, float], at: float) -> bool:
        """Log figures of a run, open or closed, at `at` (Unix seconds); return whether MLflow knows the run.

        Raises
        ------
        TrackingUnavailable
            The server does not answer, or refuses.
        """
        logged = [
            {"key": key, "value": value, "timestamp": int(at * 1000), "step": 0} for key, value in figures.items()
        ]
        try:
            self._rest.ask("runs/log-batch", {"run_id": mlflow_run_id, "metrics": logged})
        except Refused as error:
            if error.code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return False
        return True

    def variables(
        self, run_id: str, mlflow_run_id: str | None, experiment: str, words: Sequence[str], directory: Path
    ) -> dict[str, str]:
        """Return the variables with which a command logs to its run, and tags the runs that it opens itself.

        While MLflow has not opened a run for it, it opens its own, in the same experiment.

        MLflow refuses to resume a run in a script that has set another experiment. Such a script is not handed the run,
        opens its own where it wants to have it, and is found by the tag.
        """
        login = {name: os.environ[name] for name in _LOGIN if name in os.environ}  # a container has not the shell's
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
            return {**variables, "MLFLOW_EXPERIMENT_NAME": experiment}
        return {**variables, "MLFLOW_RUN_ID": mlflow_run_id}

    def new_metrics(self, run_id: str, *, everything: bool = False) -> list[SoftwareMetric]:
        """Return the figures of metrics that have a new latest value since the last call, or of all of them.

        Those of our run `run_id` are all that its script has logged, but for what nested runs of a search hold. The
        history of such a metric comes whole: who stores it passes over what is known.
        """
        return self.metrics_of(self.runs_of(run_id), everything=everything)

    def metrics_of(self, found: Sequence[TrackedRun], *, everything: bool = False) -> list[SoftwareMetric]:
        """Return the same of the runs that `runs_of` has found."""
        latest = {
            (run.mlflow_run_id, key): value
            for run in found
            if _NESTED_TAG not in run.tags
            for key, value in run.metrics.items()
            if not is_summary_metric(key)  # ours, and in the database from the beginning
        }
        figures = [
            SoftwareMetric(key, int(metric.get("step", 0)), int(metric["timestamp"]) / 1000, float(metric["value"]))
            for (mlflow_run_id, key), value in latest.items()
            if everything or self._last.get((mlflow_run_id, key)) != value
            for metric in self._history(mlflow_run_id, key)
        ]
        self._last |= latest
        return figures

    def _history(self, mlflow_run_id: str, key: str) -> Iterator[dict[str, Any]]:
        asked = {"run_id": mlflow_run_id, "metric_key": key}
        return self._rest.pages("GET", "metrics/get-history", asked, "metrics")

    def finish(
        self,
        found: Sequence[TrackedRun],
        mlflow_run_id: str,
        status: str,
        ended_at: float,
        artifacts: list[Path],
        tags: Mapping[str, str],
    ) -> None:
        """Keep the artifacts, and close the runs that `runs_of` has found since the end of ours, at `ended_at` (Unix seconds).

        `status` is one of ours.
        """
        for path in (path for path in artifacts if path.exists()):
            self._keep(found, mlflow_run_id, path)
        self._rest.ask("runs/log-batch", {"run_id": mlflow_run_id, "tags": _pairs(tags)})
        closed, end_time = _STATUSES.get(status, "FAILED"), int(ended_at * 1000)
        for run in found:
            # What a script that was killed has left open is closed too; what it has closed is its own word.
            if run.status == "RUNNING" or run.mlflow_run_id == mlflow_run_id:
                self._rest.ask("runs/update", {"run_id": run.mlflow_run_id, "status": closed, "end_time": end_time})

    def _keep(self, found: Sequence[TrackedRun], mlflow_run_id: str, path: Path) -> None:
        place = next((run.artifacts for run in found if run.mlflow_run_id == mlflow_run_id), "")
        if not self._rest.takes_artifacts(place):
            with _wrapped("MLflow does not keep artifacts"):
                self._client.log_artifact(mlflow_run_id, str(path))
            return
        try:
            self._rest.put_artifact(place, path)
        except TrackingUnavailable as error:
            raise TrackingUnavailable(f"MLflow does not keep artifacts: {error}") from error

    def artifacts(self, mlflow_run_id: str, names: Collection[str]) -> dict[str, str]:
        """Return the text of those of a run's artifacts that there are, by name.

        Raises
        ------
        TrackingUnavailable
            The server does not answer, knows no such run, or has lost them.
        """
        with _wrapped(), tempfile.TemporaryDirectory() as folder:
            there = [one.path for one in self._client.list_artifacts(mlflow_run_id) if one.path in names]
            paths = {name: self._client.download_artifacts(mlflow_run_id, name, folder) for name in there}
            return {name: Path(path).read_text(encoding="utf-8") for name, path in paths.items()}

    @contextlib.contextmanager
    def artifact(self, mlflow_run_id: str, name: str) -> Iterator[Path | None]:
        """Provide a copy of one of a run's artifacts, ``None`` where there is none, for as long as it is looked at.

        Raises
        ------
        TrackingUnavailable
            As `artifacts`.
        """
        with tempfile.TemporaryDirectory() as folder:
            with _wrapped():
                there = any(one.path == name for one in self._client.list_artifacts(mlflow_run_id))
                path = Path(self._client.download_artifacts(mlflow_run_id, name, folder)) if there else None
            yield path

    def remove(self, run_id: str) -> None:
        """Remove MLflow's runs with the tag of ours, and their artifacts; where there are none nothing is to be done.

        MLflow keeps a deleted run's row until its ``gc``.

        Raises
        ------
        TrackingUnavailable
            The server does not answer, or refuses.
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        with _wrapped():
            for run in self.runs_of(run_id):
                if self._client.list_artifacts(run.mlflow_run_id):  # where there are none, they cannot be removed
                    get_artifact_repository(run.artifacts, tracking_uri=self.uri).delete_artifacts()
                self._client.delete_run(run.mlflow_run_id)

    def runs_of(self, run_id: str) -> list[TrackedRun]:
        """Return MLflow's runs with the tag of ours, in whatever experiments they are."""
        pages = self._rest.pages("POST", "experiments/search", {"max_results": _EXPERIMENTS_AT_ONCE}, "experiments")
        asked = {
            "experiment_ids": [one["experiment_id"] for one in pages],
            "filter": f"tags.`{_RUN_TAG}` = '{run_id}'",
            "max_results": _RUNS_AT_ONCE,
        }
        return [TrackedRun.read(run) for run in self._rest.ask("runs/search", asked).get("runs", ())]

    def _experiment(self, name: str) -> str:
        if name not in self._experiments:
            self._experiments[name] = self._known_experiment(name) or self._make_experiment(name)
        return self._experiments[name]

    def _known_experiment(self, name: str) -> str | None:
        try:
            found = self._rest.look_up("experiments/get-by-name", {"experiment_name": name})
        except Refused as error:
            if error.code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return str(found["experiment"]["experiment_id"])

    def _make_experiment(self, name: str) -> str:
        try:
            return str(self._rest.ask("experiments/create", {"name": name})["experiment_id"])
        except Refused:
            if (known := self._known_experiment(name)) is None:  # somebody else was not faster
                raise
            return known


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": str(value)} for key, value in values.items()]


@contextlib.contextmanager
def _wrapped(what: str = "MLflow") -> Iterator[None]:
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError) as error:  # requests' errors are OSErrors
        raise TrackingUnavailable(f"{what}: {without_login(str(error)).splitlines()[0]}") from error
