"""Fake of Grafana: the parts of its HTTP API for pushing dashboards, with its status codes and responses."""

from __future__ import annotations

import base64
import http.server
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
TOKEN = "glsa_1234567890abcdef1234567890abcdef_12345678"
LOGIN = ("admin", "s3cret-pass")


@dataclass
class GrafanaServer:
    """Content and behavior of the fake. `role` is the login's: Admin, Editor or Viewer."""

    url: str = ""
    version: str = "12.4.0"
    role: str = "Admin"
    folders: dict[str, str] = field(default_factory=dict)  # uid → title
    sources: dict[str, Json] = field(default_factory=dict)
    dashboards: dict[str, Json] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    folder_of: dict[str, str] = field(default_factory=dict)
    provisioned: set[str] = field(default_factory=set)

    def add_source(self, **changes: Any) -> None:
        source: Json = {
            "id": 1, "uid": "bench", "orgId": 1, "name": "bench", "type": "grafana-postgresql-datasource",
            "url": "database:5432", "user": "bench_reader", "access": "proxy", "isDefault": True, "readOnly": True,
            "jsonData": {"database": "bench", "timescaledb": True, "timeInterval": "1s"}, "secureJsonFields": {},
        }  # fmt: skip
        self.sources["bench"] = {**source, **changes}

    def answer(self, method: str, path: str, login: str | None, body: Json) -> tuple[int, Any]:
        if path == "/api/health":
            return 200, {
                "database": "ok",
                "version": self.version,
                "commit": "b58701869e1a11b696010a6f28bd96b68a2cf0d0",
            }
        if (reason := _refused(login)) is not None:
            return 401, {"message": reason[0], "messageId": reason[1], "statusCode": 401, "traceID": ""}
        if method == "GET" and path == "/api/folders":
            return 200, [
                {"id": n, "uid": uid, "title": title} for n, (uid, title) in enumerate(self.folders.items(), 1)
            ]
        if method == "GET" and (found := re.fullmatch("/api/folders/(.+)", path)):
            if found[1] not in self.folders:
                return 404, {"message": "folder not found", "status": "not-found"}
            return 200, {"id": 1, "uid": found[1], "title": self.folders[found[1]], "version": 1}
        if method == "POST" and path == "/api/folders":
            return self._make_folder(body)
        if method == "GET" and (found := re.fullmatch("/api/datasources/uid/(.+)", path)):
            if self.role != "Admin":
                return 403, _denied("datasources:read")
            return (
                (200, self.sources[found[1]])
                if found[1] in self.sources
                else (404, {"message": "Data source not found", "traceID": ""})
            )
        if method == "POST" and path == "/api/dashboards/db":
            return self._save(body)
        return 404, {"message": "Not found", "traceID": ""}

    def _make_folder(self, body: Json) -> tuple[int, Any]:
        if self.role == "Viewer":
            return 403, _denied("folders:create")
        if body["uid"] in self.folders or body["title"] in self.folders.values():
            return 409, {
                "message": "a folder with the same name already exists in the current location",
                "status": "conflict",
            }
        self.folders[body["uid"]] = body["title"]
        return 200, {"id": 1, "uid": body["uid"], "orgId": 1, "title": body["title"], "version": 1, "canSave": True}

    def _save(self, body: Json) -> tuple[int, Any]:
        dashboard = body["dashboard"]
        uid = dashboard["uid"]
        if self.role == "Viewer":
            return 403, _denied("dashboards:create")
        if body["folderUid"] not in self.folders:
            return 400, {"message": "folder not found", "status": "not-found"}
        if len(uid) > 40:
            return 400, {"message": "uid too long, max 40 characters"}
        if uid in self.provisioned:
            return 400, {"message": "Cannot save provisioned dashboard"}
        if uid in self.dashboards and not body["overwrite"]:
            return 412, {"message": "The dashboard has been changed by someone else", "status": "version-mismatch"}
        self.dashboards[uid], self.folder_of[uid] = dashboard, body["folderUid"]
        self.versions[uid] = self.versions.get(uid, 0) + 1
        slug = re.sub("[^a-z0-9]+", "-", dashboard["title"].lower()).strip("-")
        return 200, {
            "folderUid": body["folderUid"], "id": len(self.dashboards), "slug": slug, "status": "success", "uid": uid,
            "url": f"/d/{uid}/{slug}", "version": self.versions[uid],
        }  # fmt: skip


def _refused(login: str | None) -> tuple[str, str] | None:
    if login is None:
        return "Unauthorized", "auth.unauthorized"
    basic = base64.b64encode(":".join(LOGIN).encode()).decode()
    return None if login in (f"Bearer {TOKEN}", f"Basic {basic}") else ("Invalid API key", "api-key.invalid")


def _denied(permission: str) -> Json:
    return {
        "accessErrorId": "ACE5527192843",
        "message": f"You'll need additional permissions to perform this action. Permissions needed: {permission}",
        "title": "Access denied",
    }


@contextmanager
def serving(grafana: GrafanaServer) -> Iterator[GrafanaServer]:
    """Serve on a free port; `url` is the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply("GET", {})

        def do_POST(self) -> None:
            self._reply("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, method: str, body: Json) -> None:
            status, answer = grafana.answer(method, self.path, self.headers.get("Authorization"), body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        grafana.url = f"http://127.0.0.1:{server.server_port}"
        yield grafana
        server.shutdown()
