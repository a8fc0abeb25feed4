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
    """Result of a push: `done` is ``created``, ``updated`` or ``provisioned``, and then left as it is."""

    uid: str
    title: str
    done: str
    url: str


class Grafana:
    """A Grafana server.

    Parameters
    ----------
    url
        Where it answers; with a login in it, or with a `token` of a service account that is an Editor.

    Raises
    ------
    BadRequest
        The URL is none.
    GrafanaUnavailable
        It does not answer, or refuses us.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        # Half a second to import, for one command.
        from grafana_client import GrafanaApi

        if not url.startswith(("http://", "https://")):
            raise BadRequest(f"{without_login(url)!r} is no address of a Grafana: that begins with http:// or https://")
        self.url = without_login(url).rstrip("/")
        self._folder = FOLDER
        self._api = GrafanaApi.from_url(url.rstrip("/"), credential=token, timeout=30)
        with self._asking("its version"):
            self.version = str(self._api.health.check()["version"])

    def make_folder(self) -> bool:
        """Make the folder of our dashboards, and return whether there was none."""
        with self._asking(f"the folder {FOLDER!r}"):
            if self._found(self._api.folder.get_folder, FOLDER) is not None:
                return False
            # Provisioning made one of this name perhaps, with a uid that it thought of itself.
            if same := [folder for folder in self._api.folder.get_all_folders() if folder["title"] == FOLDER]:
                self._folder = str(same[0]["uid"])
                return False
            self._api.folder.create_folder(FOLDER, uid=FOLDER)
        return True

    def source_faults(self) -> Iterator[str]:
        """Yield what is wrong with the data source that the dashboards ask."""
        uid = DATASOURCE["uid"]
        with self._asking(f"the data source {uid!r}"):
            try:
                source = self._found(self._api.datasource.get_datasource_by_uid, uid)
            except self._error as error:
                if error.status_code != 403:
                    raise
                yield f"whether there is a data source with the uid {uid!r} may only be asked by an Admin"
                return
        if source is None:
            yield f"there is no data source with the uid {uid!r}, so that no panel will show anything"
        elif source["type"] != DATASOURCE["type"]:
            yield f"the data source {uid!r} is of the type {source['type']}, not {DATASOURCE['type']}"
        elif source.get("jsonData", {}).get("timeInterval") != "1s":
            yield f"the data source {uid!r} has no minimum interval of 1s, so that charts have a point a minute at most"

    def push(self, dashboards: Iterable[Json]) -> Iterator[Pushed]:
        """Create dashboards in our folder, or replace them, and yield what became of each."""
        for dashboard in dashboards:
            with self._asking(f"the dashboard {dashboard['uid']!r}"):
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
    def _asking(self, about: str) -> Iterator[None]:
        from requests import RequestException

        try:
            yield
        except self._error as error:
            raise GrafanaUnavailable(f"Grafana at {self.url}, asked about {about}: {_reason(error)}") from None
        except RequestException as error:
            raise GrafanaUnavailable(f"Grafana at {self.url} does not answer: {_words(error)}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise GrafanaUnavailable(f"what answers at {self.url} is no Grafana") from error


def _reason(error: Any) -> str:
    message = error.response.get("message") if isinstance(error.response, dict) else None
    words = f"{error.status_code} {message or 'without a reason'}"
    if error.status_code == 401:
        return f"{words}; set BENCH_GRAFANA_TOKEN to a service account's token"
    if error.status_code == 403:
        return f"{words}; the token has to be an Editor's"
    return words


def _words(error: Exception) -> str:
    """Return the innermost reason: the outer ones repeat addresses, perhaps with a login."""
    reason: BaseException = error
    while (inner := reason.__cause__ or reason.__context__) is not None:
        reason = inner
    return without_login(str(reason)) or type(reason).__name__
