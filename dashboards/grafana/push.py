"""Push of dashboards to a Grafana over HTTP. The only user of `grafana_client`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hypergauge.core.addresses import without_login
from hypergauge.core.errors import BadRequest, GrafanaUnavailable
from hypergauge.dashboards.grafana.queries import DATASOURCE, Json

__all__ = ["FOLDER", "Grafana", "Pushed"]

FOLDER = "hypergauge"
_PROVISIONED = "Cannot save provisioned dashboard"


@dataclass(frozen=True, slots=True)
class Pushed:
    """Result of a push: `done` is ``created``, ``updated``, or ``provisioned`` for a dashboard that Grafana protects."""

    uid: str
    title: str
    done: str
    url: str


class Grafana:
    """A Grafana server.

    Parameters
    ----------
    url
        Its address, with a login; or a `token` of a service account with the role Editor.

    Raises
    ------
    BadRequest
        The URL is invalid.
    GrafanaUnavailable
        It does not answer, or refuses the login.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        # The import takes half a second.
        from grafana_client import GrafanaApi

        if not url.startswith(("http://", "https://")):
            raise BadRequest(f"{without_login(url)!r} is not an address of Grafana: it needs http:// or https://")
        self.url = without_login(url).rstrip("/")
        self._folder = FOLDER
        self._api = GrafanaApi.from_url(url.rstrip("/"), credential=token, timeout=30)
        with self._request("its version"):
            self.version = str(self._api.health.check()["version"])

    def make_folder(self) -> bool:
        """Create the dashboards' folder unless it exists; return whether it was created."""
        with self._request(f"the folder {FOLDER!r}"):
            if self._found(self._api.folder.get_folder, FOLDER) is not None:
                return False
            # Provisioning may have created a folder of this name with another uid.
            if same := [folder for folder in self._api.folder.get_all_folders() if folder["title"] == FOLDER]:
                self._folder = str(same[0]["uid"])
                return False
            self._api.folder.create_folder(FOLDER, uid=FOLDER)
        return True

    def source_faults(self) -> Iterator[str]:
        """Yield the faults of the dashboards' data source."""
        uid = DATASOURCE["uid"]
        with self._request(f"the data source {uid!r}"):
            try:
                source = self._found(self._api.datasource.get_datasource_by_uid, uid)
            except self._error as error:
                if error.status_code != 403:
                    raise
                yield f"the data source {uid!r} was not checked: that takes the role Admin"
                return
        if source is None:
            yield f"there is no data source with the uid {uid!r}: panels will be empty"
        elif source["type"] != DATASOURCE["type"]:
            yield f"the data source {uid!r} has the type {source['type']}, not {DATASOURCE['type']}"
        elif source.get("jsonData", {}).get("timeInterval") != "1s":
            yield f"the data source {uid!r} has no minimum interval of 1s: charts have a point a minute at most"

    def push(self, dashboards: Iterable[Json]) -> Iterator[Pushed]:
        """Create or replace dashboards in their folder, and yield each result."""
        for dashboard in dashboards:
            with self._request(f"the dashboard {dashboard['uid']!r}"):
                yield self._push_one(dashboard)

    def _push_one(self, dashboard: Json) -> Pushed:
        uid, title = dashboard["uid"], dashboard["title"]
        content = {
            "dashboard": {**dashboard, "id": None},
            "folderUid": self._folder,
            "overwrite": True,
            "message": "bench dashboards push",
        }
        try:
            answer = self._api.dashboard.update_dashboard(content)
        except self._error as error:
            if error.status_code == 400 and _PROVISIONED in str(error.response):
                return Pushed(uid, title, "provisioned", f"{self.url}/d/{uid}")
            raise
        done = "created" if answer["version"] == 1 else "updated"
        return Pushed(uid, title, done, f"{self.url}/d/{uid}")

    @property
    def _error(self) -> type[Any]:
        from grafana_client.client import GrafanaException

        found: type[Any] = GrafanaException
        return found

    def _found(self, get: Any, uid: str) -> Any:
        try:
            return get(uid)
        except self._error as error:
            if error.status_code == 404:
                return None
            raise

    @contextlib.contextmanager
    def _request(self, about: str) -> Iterator[None]:
        from requests import RequestException

        try:
            yield
        except self._error as error:
            raise GrafanaUnavailable(f"Grafana at {self.url} refused {about}: {_reason(error)}") from None
        except RequestException as error:
            raise GrafanaUnavailable(
                f"Grafana at {self.url} does not answer: {_words(error)}; `bench up` starts one that is installed, --url names another"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise GrafanaUnavailable(f"the server at {self.url} is not Grafana") from error


def _reason(error: Any) -> str:
    message = error.response.get("message") if isinstance(error.response, dict) else None
    words = f"{error.status_code} {message or 'without a reason'}"
    if error.status_code == 401:
        return f"{words}; set BENCH_GRAFANA_TOKEN to a service account's token"
    if error.status_code == 403:
        return f"{words}; the token needs the role Editor"
    return words


def _words(error: Exception) -> str:
    """Return the innermost reason, because the outer ones may hold a login."""
    reason: BaseException = error
    while (inner := reason.__cause__ or reason.__context__) is not None:
        reason = inner
    return without_login(str(reason)) or type(reason).__name__
