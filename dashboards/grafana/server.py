"""Local Grafana server: an installed Grafana with its own settings and folder."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hypergauge.core.errors import BadRequest
from hypergauge.core.files import private
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.dashboards.grafana import files
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.reader import Reader

__all__ = ["HOW_TO_GET_ONE", "GrafanaServer", "admin_password"]

HOW_TO_GET_ONE = "it is not installed: install the package grafana by grafana.com/docs, or unpack its archive and set GRAFANA_HOME to it"
_PROVISIONING = Path(__file__).parents[1] / "provisioning"
# The packages' folder; an archive may be anywhere, so the program on the path leads to it.
_INSTALLED = "usr/share/grafana"
# Grafana logs errors without these folders.
_EMPTY = ("alerting", "plugins")


@dataclass(frozen=True, slots=True)
class GrafanaServer:
    """An installed Grafana.

    Attributes
    ----------
    home
        Folder of its defaults and front-end.
    program
        Executable.
    """

    home: Path
    program: Path

    @classmethod
    def find(cls, environment: Mapping[str, str] | None = None, root: Path = Path("/")) -> GrafanaServer | None:
        """Return the Grafana at ``GRAFANA_HOME``, on the ``PATH`` or in the packages' folder.

        Raises
        ------
        BadRequest
            ``GRAFANA_HOME`` holds no Grafana.
        """
        environment = os.environ if environment is None else environment
        on_path = shutil.which("grafana", path=environment.get("PATH", ""))
        if named := environment.get("GRAFANA_HOME"):
            homes = [Path(named)]
        else:
            homes = [*([Path(on_path).resolve().parents[1]] if on_path else []), root / _INSTALLED]
        for home in homes:
            # The program on the path is a wrapper with its own settings, so `bin` comes first.
            program = shutil.which("grafana", path=str(home / "bin")) or on_path
            if program and (home / "conf" / "defaults.ini").is_file():
                return cls(home, Path(program))
        if named:
            raise BadRequest(f"GRAFANA_HOME is {named}, but that holds no Grafana: bin/grafana and conf/defaults.ini")
        return None

    def command(self, folder: Path, reader: Reader, port: int, mlflow: str) -> tuple[list[str], dict[str, str]]:
        """Write its provisioning into `folder`; return its command line and additional environment.

        The dashboards link to the MLflow at `mlflow`. Users of this host may look without a login. Changes take the
        password in ``folder/admin-password``.
        """
        private.make_folder(folder)
        provisioning = folder / "provisioning"
        for name in _EMPTY:
            private.make_folder(provisioning / name)
        _write(provisioning / "datasources" / "bench.yaml", _source(reader))
        dashboards = folder / "dashboards"
        private.make_folder(dashboards)
        files.write(dashboards, mlflow, 0o600)
        _write(provisioning / "dashboards" / "bench.yaml", _provider(dashboards))
        arguments = [
            str(self.program),
            "server",
            "--homepath",
            str(self.home),
            "--config",
            str(_PROVISIONING / "grafana.ini"),
        ]
        return arguments, {
            "GF_PATHS_DATA": str(folder / "data"),
            "GF_PATHS_LOGS": str(folder / "data" / "log"),
            "GF_PATHS_PLUGINS": str(folder / "plugins"),
            "GF_PATHS_PROVISIONING": str(provisioning),
            "GF_LOG_MODE": "console",
            "GF_SERVER_PROTOCOL": "http",
            "GF_SERVER_HTTP_ADDR": "127.0.0.1",
            "GF_SERVER_HTTP_PORT": str(port),
            "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": str(dashboards / "bench-fleet.json"),
            "GF_AUTH_ANONYMOUS_ENABLED": "true",
            "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
            "GF_SECURITY_ADMIN_PASSWORD": admin_password(folder),
            "GF_SECURITY_SECRET_KEY": _secret(folder / "secret-key"),
            "BENCH_READER_PASSWORD": reader.password,
        }


def admin_password(folder: Path) -> str:
    """Return the password of the user ``admin`` of the Grafana in a folder."""
    return _secret(folder / "admin-password")


def _source(reader: Reader) -> dict[str, Any]:
    """Return the data source of docker-compose.yml for this database."""
    content = _provided("datasources")
    [source] = content["datasources"]
    socket = reader.host.startswith("/")
    host = f"[{reader.host}]" if ":" in reader.host else reader.host
    source |= {
        "url": _literal(reader.host if socket else f"{host}:{reader.port}"),
        "user": _literal(reader.user),
        "secureJsonData": {"password": "$BENCH_READER_PASSWORD"},
    }
    source["jsonData"] |= {
        "database": _literal(reader.database),
        "sslmode": reader.sslmode,
        "postgresVersion": int(reader.server.version.split(".")[0]) * 100,
        "timescaledb": reader.server.flavour is Flavour.TIMESCALEDB,
    }
    if reader.sslrootcert:
        source["jsonData"] |= {"tlsConfigurationMethod": "file-path", "sslRootCertFile": _literal(reader.sslrootcert)}
    return content


def _provider(dashboards: Path) -> dict[str, Any]:
    """Return the provider of docker-compose.yml for this folder."""
    content = _provided("dashboards")
    content["providers"][0]["options"]["path"] = _literal(str(dashboards))
    return content


def _provided(kind: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((_PROVISIONING / kind / "bench.yaml").read_text(encoding="utf-8"))
    return content


def _literal(text: str) -> str:
    """Return a text without variables for Grafana to expand."""
    return text.replace("$", "$$")


def _write(path: Path, content: object) -> None:
    private.make_folder(path.parent)
    write_atomically(path, yaml.safe_dump(content, sort_keys=False))


def _secret(path: Path) -> str:
    """Return the secret in a file; create it first if necessary."""
    if not path.exists():
        write_atomically(path, secrets.token_hex(16))
    return path.read_text(encoding="ascii")
