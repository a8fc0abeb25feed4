"""MLflow's REST interface, as far as runs need it.

Importing MLflow takes a second of CPU, more than all else that a short command does, and a run that is measured beside it
would feel it. So the stack's own server, which asks for no login, is spoken to in plain HTTP. Any other server is reached
through MLflow's own transport, which knows logins, certificates and proxies.
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

__all__ = ["MlflowRest", "Refused", "TrackedRun"]

_API = "/api/2.0/mlflow/"
_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts/"
_TIMEOUT_SECONDS = 20.0
# Before it is asked again: a server that is away should cost seconds, for what is not delivered now is delivered later.
_PAUSES = (0.5, 1.0, 2.0)
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


class Refused(TrackingUnavailable):
    """MLflow refuses a request.

    Attributes
    ----------
    code
        MLflow's name of the reason, such as ``INVALID_PARAMETER_VALUE``; empty where it gives none.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run as MLflow has it; `metrics` are the last values, `artifacts` is where it keeps its files."""

    mlflow_run_id: str
    status: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    artifacts: str

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Return the run that MLflow's REST interface describes."""
        info, data = content["info"], content.get("data", {})
        return cls(
            info["run_id"],
            info["status"],
            {tag["key"]: tag["value"] for tag in data.get("tags", ())},
            {metric["key"]: float(metric["value"]) for metric in data.get("metrics", ())},
            info.get("artifact_uri", ""),
        )


class MlflowRest:
    """Requests to the tracking server at `uri`."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        parts = urlsplit(uri)
        configured = any(name.startswith("MLFLOW_TRACKING_") and name != "MLFLOW_TRACKING_URI" for name in os.environ)
        self._is_plain = parts.scheme == "http" and parts.netloc.startswith("127.0.0.1:") and not configured
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def ask(self, endpoint: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an endpoint such as ``runs/create`` answers to a POST.

        Raises
        ------
        Refused
            MLflow does not accept the request.
        TrackingUnavailable
            It does not answer.
        """
        return self._request("POST", endpoint, body)

    def look_up(self, endpoint: str, query: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an endpoint answers to a GET; raises as `ask`."""
        return self._request("GET", endpoint, query)

    def pages(self, method: str, endpoint: str, query: Mapping[str, Any], field: str) -> Iterator[dict[str, Any]]:
        """Yield what a list of MLflow's has under `field`, page by page; raises as `ask`."""
        token: str | None = None
        while True:
            page = self._request(method, endpoint, {**query, **({"page_token": token} if token else {})})
            yield from page.get(field, ())
            if not (token := page.get("next_page_token")):
                return

    def takes_artifacts(self, artifact_uri: str) -> bool:
        """Return whether the server itself keeps what lies at `artifact_uri`, and can be given it in plain HTTP."""
        return self._is_plain and artifact_uri.startswith("mlflow-artifacts:/")

    def put_artifact(self, artifact_uri: str, path: Path) -> None:
        """Keep a file among the artifacts of a run, whose `artifact_uri` this is; raises as `ask`."""
        place = quote(f"{urlsplit(artifact_uri).path.strip('/')}/{path.name}")
        with path.open("rb") as file:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(path.stat().st_size)}
            request = urllib.request.Request(self._uri + _ARTIFACTS + place, data=file, headers=headers, method="PUT")  # noqa: S310
            self._answer(request)

    def _request(self, method: str, endpoint: str, content: Mapping[str, Any]) -> dict[str, Any]:
        if not self._is_plain:
            return _through_mlflow(self._uri, method, endpoint, content)
        url, data = self._uri + _API + endpoint, None
        if method == "GET":
            url += f"?{urlencode(content)}"
        else:
            data = json.dumps(content).encode()
        for pause in (*_PAUSES, None):
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
            try:
                answer: dict[str, Any] = json.loads(self._answer(request) or b"{}")
            except Refused:
                raise
            except TrackingUnavailable:
                if pause is None:
                    raise
            else:
                return answer
            time.sleep(pause)
        raise AssertionError

    def _answer(self, request: urllib.request.Request) -> bytes:
        try:
            with self._open(request, timeout=_TIMEOUT_SECONDS) as response:
                body: bytes = response.read()
                return body
        except urllib.error.HTTPError as error:
            with error:
                message, code = _reason(error)
            if error.code in _TRANSIENT:
                raise TrackingUnavailable(message) from error
            raise Refused(message, code) from error
        except (OSError, http.client.HTTPException) as error:
            raise TrackingUnavailable(f"MLflow: {error}") from error


def _reason(error: urllib.error.HTTPError) -> tuple[str, str]:
    try:
        said = json.loads(error.read())
        return f"MLflow: {str(said['message']).splitlines()[0]}", str(said.get("error_code", ""))
    except (ValueError, KeyError, TypeError, IndexError, OSError):
        return f"MLflow: {error.code} {error.reason}", ""


def _through_mlflow(uri: str, method: str, endpoint: str, content: Mapping[str, Any]) -> dict[str, Any]:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking._tracking_service.utils import get_default_host_creds
    from mlflow.utils.rest_utils import http_request, verify_rest_response

    path = _API + endpoint
    body = {"params": dict(content)} if method == "GET" else {"json": dict(content)}
    try:
        done = verify_rest_response(http_request(get_default_host_creds(uri), path, method, **body), path)
        answer: dict[str, Any] = done.json()
    except MlflowException as error:
        raise Refused(f"MLflow: {without_login(str(error)).splitlines()[0]}", error.error_code) from error
    except OSError as error:  # requests' errors are
        raise TrackingUnavailable(f"MLflow: {without_login(str(error)).splitlines()[0]}") from error
    return answer
