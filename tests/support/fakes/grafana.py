"""Fake of Grafana's server: it reads settings and provisioning like Grafana 12, but stricter.

Grafana ignores an unknown key; the fake ends. It queries the database like Grafana's data source, and serves the parts of the
HTTP API that the tests need, for visitors and ``admin``.
"""

from __future__ import annotations

import base64
import configparser
import json
import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import yaml

# Grafana's settings that we use: conf/defaults.ini.
SETTINGS = {
    "analytics": {"reporting_enabled", "check_for_updates", "check_for_plugin_updates", "feedback_links_enabled"},
    "auth.anonymous": {"enabled", "org_name", "org_role"},
    "dashboards": {"panel_series_limit", "min_refresh_interval", "default_home_dashboard_path"},
    "log": {"mode", "level"},
    "news": {"news_feed_enabled"},
    "paths": {"data", "logs", "plugins", "provisioning"},
    "plugins": {"preinstall_disabled", "public_key_retrieval_disabled"},
    "public_dashboards": {"enabled"},
    "security": {"admin_user", "admin_password", "secret_key", "disable_gravatar"},
    "server": {"protocol", "http_addr", "http_port"},
    "snapshots": {"external_enabled"},
    "users": {"allow_sign_up"},
}
# pkg/services/provisioning/datasources/types.go, and the options of the PostgreSQL data source.
SOURCE = {
    "orgId", "version", "name", "type", "access", "url", "user", "database", "basicAuth", "basicAuthUser",
    "withCredentials", "isDefault", "correlations", "jsonData", "secureJsonData", "editable", "uid",
}  # fmt: skip
OPTIONS: dict[str, type] = {
    "database": str, "sslmode": str, "postgresVersion": int, "timescaledb": bool, "timeInterval": str,
    "maxOpenConns": int, "maxIdleConns": int, "maxIdleConnsAuto": bool, "connMaxLifetime": int,
    "tlsConfigurationMethod": str, "sslRootCertFile": str,
}  # fmt: skip
# pkg/services/provisioning/dashboards/types.go
PROVIDER = {
    "orgId", "name", "type", "folder", "folderUid", "editable", "options", "disableDeletion", "updateIntervalSeconds",
    "allowUiUpdates",
}  # fmt: skip


class Settings:
    """Ini file, overridden by the environment: ``GF_SECTION_KEY``."""

    def __init__(self, path: Path) -> None:
        self._file = configparser.ConfigParser(interpolation=None)
        self._file.read_string(path.read_text())
        for section in self._file.sections():
            known(section, SETTINGS, "section")
            for key in self._file[section]:
                known(key, SETTINGS[section], f"setting of [{section}]")
        names = {variable(section, key) for section, keys in SETTINGS.items() for key in keys}
        for name in os.environ:
            if name.startswith("GF_"):
                known(name, names, "variable")

    def __call__(self, section: str, key: str) -> str:
        return os.environ.get(variable(section, key)) or str(self._file.get(section, key, fallback=""))


def variable(section: str, key: str) -> str:
    return f"GF_{section}_{key}".replace(".", "_").upper()


def known(name: str, names: Any, what: str) -> None:
    if name not in names:
        sys.exit(f"Grafana knows no {what} {name!r}")


def expanded(value: Any) -> Any:
    """Replace variables and files as in pkg/services/provisioning/values; ``$$`` is a dollar."""
    if isinstance(value, dict):
        return {key: expanded(one) for key, one in value.items()}
    if not isinstance(value, str):
        return value

    def braces(match: re.Match[str]) -> str:
        if match[1] == "__file":
            return Path(str(match[2])).read_text().strip()
        return os.environ.get(str(match[2]), "")

    parts = (re.sub(r"\$(__\w+)?\{([^}]+)\}", braces, part) for part in value.split("$$"))
    return "$".join(re.sub(r"\$(\w+)", lambda match: os.environ.get(match[1], ""), part) for part in parts)


def provisioned(folder: Path, kind: str, key: str, names: set[str]) -> list[dict[str, Any]]:
    found = []
    for path in sorted((folder / kind).glob("*.yaml")):
        content = yaml.safe_load(path.read_text())
        if content.keys() != {"apiVersion", key} or content["apiVersion"] != 1:
            sys.exit(f"{path}: apiVersion: 1 and {key} are expected")
        for one in content[key]:
            for name in one:
                known(name, names, f"key of {key}")
            found.append(expanded(one))
    return found


class Source:
    """Data source with the connection of pkg/tsdb/grafana-postgresql-datasource."""

    def __init__(self, given: dict[str, Any]) -> None:
        if given["type"] != "grafana-postgresql-datasource":
            sys.exit(f"there is no plugin {given['type']!r}")
        for name, value in given["jsonData"].items():
            known(name, OPTIONS, "option of the data source")
            if type(value) is not OPTIONS[name]:
                sys.exit(f"{name} must be {OPTIONS[name].__name__}, not {value!r}")
        self.given = given
        options, url = given["jsonData"], given["url"]
        if options["sslmode"] not in ("disable", "require", "verify-ca", "verify-full"):
            sys.exit(f"sslmode {options['sslmode']!r} is none of Grafana's")
        self.parameters: dict[str, str] = {
            "user": given["user"], "dbname": options["database"], "sslmode": options["sslmode"],
            "password": given.get("secureJsonData", {}).get("password", ""),
        }  # fmt: skip
        if url.startswith("/"):
            self.parameters["host"] = url
        else:
            self.parameters["host"], _, self.parameters["port"] = url.rpartition(":")
        self.uid = given["uid"]
        self.interval = options["timeInterval"]

    def query(self, statement: str) -> list[Any]:
        with psycopg.connect(**self.parameters) as connection:  # type: ignore[arg-type]
            return connection.execute(statement.encode()).fetchall()


def dashboards(providers: list[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for provider in providers:
        folder = Path(provider["options"]["path"])
        if provider["type"] != "file" or not folder.is_dir():
            sys.exit(f"{folder} is not there")
        for path in folder.glob("*.json"):
            dashboard = json.loads(path.read_text())
            found[dashboard["uid"]] = dashboard["title"]
    return found


class Answer(BaseHTTPRequestHandler):
    """Handler of the HTTP API."""

    admin: str
    visitor: str | None
    sources: dict[str, Source]
    boards: dict[str, Any]

    def do_GET(self) -> None:
        answers = {
            "/api/search": [{"uid": uid, "title": title} for uid, title in self.boards.items()],
            "/api/user": {"role": self.role},
            "/api/folders/hypergauge": {"uid": "hypergauge"},
            **{f"/api/datasources/uid/{uid}": source.given for uid, source in self.sources.items()},
        }
        if self.path == "/api/health":
            self.answer(200, {"database": "ok", "version": "12.4.12"})
        elif self.role is None:
            self.answer(401, {})
        else:
            self.answer(200 if self.path in answers else 404, answers.get(self.path, {}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/dashboards/db" and self.role == "Admin":
            if body["dashboard"]["uid"] in self.boards:
                return self.answer(400, {"message": "Cannot save provisioned dashboard"})
            return self.answer(200, {"version": 1})
        if self.path != "/api/ds/query" or self.role is None:
            return self.answer(403, {"message": "Permission denied"})
        [query] = body["queries"]
        try:
            rows = self.sources[query["datasource"]["uid"]].query(query["rawSql"])
        except psycopg.Error as error:
            return self.answer(400, {"error": str(error)})
        return self.answer(200, {"rows": [[str(value) for value in row] for row in rows]})

    @property
    def role(self) -> str | None:
        return "Admin" if self.headers["Authorization"] == self.admin else self.visitor

    def answer(self, status: int, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def serve(settings: Settings, sources: dict[str, Source], boards: dict[str, Any]) -> None:
    login = f"admin:{settings('security', 'admin_password')}"
    Answer.admin = "Basic " + base64.b64encode(login.encode()).decode()
    visitors = settings("auth.anonymous", "enabled") == "true"
    Answer.visitor = settings("auth.anonymous", "org_role") if visitors else None
    Answer.sources, Answer.boards = sources, boards
    address = (settings("server", "http_addr"), int(settings("server", "http_port")))
    ThreadingHTTPServer(address, Answer).serve_forever()


def main() -> None:
    command, homepath, home, config, path = sys.argv[1:]
    if (command, homepath, config) != ("server", "--homepath", "--config") or not Path(
        home, "conf/defaults.ini"
    ).exists():
        sys.exit(f"unexpected words: {sys.argv[1:]}")
    settings = Settings(Path(path))
    folder = Path(settings("paths", "provisioning"))
    for name in ("alerting", "plugins"):
        if not (folder / name).is_dir():
            sys.exit(f"Grafana complains that {folder / name} is missing")
    for key in ("admin_password", "secret_key"):
        if len(settings("security", key)) < 32:
            sys.exit(f"{key} is short")
    json.loads(Path(settings("dashboards", "default_home_dashboard_path")).read_text())
    Path(settings("paths", "data")).mkdir(parents=True, exist_ok=True)
    sources = [Source(one) for one in provisioned(folder, "datasources", "datasources", SOURCE)]
    boards = dashboards(provisioned(folder, "dashboards", "providers", PROVIDER))
    serve(settings, {source.uid: source for source in sources}, boards)


if __name__ == "__main__":
    main()
