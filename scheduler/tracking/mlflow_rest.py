"""Client of MLflow's REST API, as far as runs need it.

Importing MLflow takes 1 s of CPU, more than the rest of a short command, and disturbs runs that are measured at the
same time. The client therefore uses plain HTTP for the stack's own server, which needs no login. For other servers it
uses MLflow's own transport, which supports logins, certificates and proxies.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from hypergauge.core.addresses import without_login
from hypergauge.core.errors import TrackingUnavailable
from hypergauge.core.system.backoff import pauses
from hypergauge.scheduler.tracking.mlflow_answers import checked

__all__ = ["MlflowRest", "Refused", "TrackedExperiment", "TrackedRun"]

_API = "/api/2.0/mlflow/"
_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts/"
_TIMEOUT_SECONDS = 20.0
# Total of pauses between retries. An unreachable server costs only seconds, since delivery is retried later.
_PAUSES = 3.0
_MOST_BYTES = 1 << 30
_MOST_PAGES = 10_000
_LONGEST_REASON = 1 << 20
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


class Refused(TrackingUnavailable):
    """MLflow refuses a request.

    Attributes
    ----------
    code
        Error code of MLflow, such as ``INVALID_PARAMETER_VALUE``; empty if it gives none.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """Run in MLflow. `metrics` are the latest values, `artifacts` is the URI of its artifacts."""

    mlflow_run_id: str
    status: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    artifacts: str

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Parse a run from MLflow's REST API."""
        info, data = content["info"], content["data"]
        return cls(
            info["run_id"],
            info["status"],
            {tag["key"]: tag["value"] for tag in data["tags"]},
            {metric["key"]: metric["value"] for metric in data["metrics"]},
            info["artifact_uri"],
        )


@dataclass(frozen=True, slots=True)
class TrackedExperiment:
    """Experiment in MLflow."""

    experiment_id: str
    name: str
    is_deleted: bool = False

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Parse an experiment from MLflow's REST API."""
        found = content["experiment"]
        return cls(str(found["experiment_id"]), found["name"], found["lifecycle_stage"] == "deleted")

    @property
    def deletion(self) -> str:
        """Return that it is deleted, with the remedy."""
        remedy = f"`mlflow experiments restore -x {self.experiment_id}`"
        return f"the experiment {self.name!r} is deleted in MLflow: {remedy} restores it"


class MlflowRest:
    """REST client of the tracking server at `uri`."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        parts = urlsplit(uri)
        configured = any(name.startswith("MLFLOW_TRACKING_") and name != "MLFLOW_TRACKING_URI" for name in os.environ)
        self._is_plain = parts.scheme == "http" and parts.netloc.startswith("127.0.0.1:") and not configured
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def post(self, endpoint: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a POST to an endpoint such as ``runs/create``; return the response.

        Raises
        ------
        Refused
            MLflow does not accept the request.
        TrackingUnavailable
            MLflow does not answer.
        """
        return self._request("POST", endpoint, body)

    def look_up(self, endpoint: str, query: Mapping[str, Any]) -> dict[str, Any]:
        """Send a GET to an endpoint; return the response. Raises like `post`."""
        return self._request("GET", endpoint, query)

    def pages(self, method: str, endpoint: str, query: Mapping[str, Any], field: str) -> Iterator[dict[str, Any]]:
        """Yield the items under `field` of a paginated list. Raises like `post`."""
        token: str | None = None
        for _ in range(_MOST_PAGES):
            page = self._request(method, endpoint, {**query, **({"page_token": token} if token else {})})
            yield from page[field]
            if not page["next_page_token"]:
                return
            if page["next_page_token"] == token:
                break
            token = page["next_page_token"]
        raise TrackingUnavailable(f"MLflow gives pages of {endpoint} without an end")

    def takes_artifacts(self, artifact_uri: str) -> bool:
        """Return whether the server itself stores the artifacts at `artifact_uri` and accepts plain HTTP."""
        return self._is_plain and artifact_uri.startswith("mlflow-artifacts:/")

    def put_artifact(self, artifact_uri: str, path: Path, below: str = "") -> None:
        """Upload a file to the artifacts at `artifact_uri`, or to their folder `below`. Raises like `post`."""
        location = quote("/".join(filter(None, (urlsplit(artifact_uri).path.strip("/"), below, path.name))))
        with path.open("rb") as file:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(path.stat().st_size)}
            url = self._uri + _ARTIFACTS + location
            request = urllib.request.Request(url, data=file, headers=headers, method="PUT")  # noqa: S310
            self._answer(request)

    def _request(self, method: str, endpoint: str, content: Mapping[str, Any]) -> dict[str, Any]:
        if not self._is_plain:
            return checked(endpoint, _through_mlflow(self._uri, method, endpoint, content))
        url, data = self._uri + _API + endpoint, None
        if method == "GET":
            url += f"?{urlencode(content)}"
        else:
            data = json.dumps(content).encode()
        for pause in (*pauses(0.5, 2.0, within=_PAUSES), None):
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
            try:
                answer = self._answer(request)
            except Refused:
                raise
            except TrackingUnavailable:
                if pause is None:
                    raise
            else:
                return checked(endpoint, _parsed(answer or b"{}"))
            time.sleep(pause)
        raise AssertionError

    def _answer(self, request: urllib.request.Request) -> bytes:
        try:
            with self._open(request, timeout=_TIMEOUT_SECONDS) as response:
                body: bytes = response.read(_MOST_BYTES + 1)
                if len(body) > _MOST_BYTES:
                    raise TrackingUnavailable(f"MLflow: its answer has more than {_MOST_BYTES >> 20} MiB")
                return body
        except urllib.error.HTTPError as error:
            with error:
                message, code = _reason(error)
            if error.code in _TRANSIENT:
                raise TrackingUnavailable(message) from error
            raise Refused(message, code) from error
        except (OSError, http.client.HTTPException) as error:
            raise TrackingUnavailable(f"MLflow: {error}") from error


def _parsed(answer: bytes) -> object:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        raise TrackingUnavailable("MLflow does not answer with JSON") from None


def _reason(error: urllib.error.HTTPError) -> tuple[str, str]:
    try:
        answer = json.loads(error.read(_LONGEST_REASON))
        return f"MLflow: {str(answer['message']).splitlines()[0]}", str(answer.get("error_code", ""))
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
        OSError,
        http.client.HTTPException,
    ):
        return f"MLflow: {error.code} {error.reason}", ""


def _through_mlflow(uri: str, method: str, endpoint: str, content: Mapping[str, Any]) -> object:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking._tracking_service.utils import get_default_host_creds
    from mlflow.utils.rest_utils import http_request, verify_rest_response

    path = _API + endpoint
    body = {"params": dict(content)} if method == "GET" else {"json": dict(content)}
    try:
        done = verify_rest_response(http_request(get_default_host_creds(uri), path, method, **body), path)
        answer: object = done.json()
    except (ValueError, RecursionError):
        raise TrackingUnavailable("MLflow does not answer with JSON") from None
    except MlflowException as error:
        raise Refused(f"MLflow: {without_login(str(error)).splitlines()[0]}", error.error_code) from error
    except OSError as error:  # base class of the errors of requests
        raise TrackingUnavailable(f"MLflow: {without_login(str(error)).splitlines()[0]}") from error
    return answer
