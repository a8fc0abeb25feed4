"""Detection of Grafana, and its provisioning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.grafana.boards import BOARDS
from hypergauge.dashboards.grafana.server import GrafanaServer
from hypergauge.sql.schema.flavour import Flavour, Server
from hypergauge.sql.server.reader import Reader

MLFLOW = "http://127.0.0.1:40123"
SERVER = Server(Flavour.TIMESCALEDB, "17.6", "2.28.3", "timescale")


def install(home: Path) -> Path:
    """Create the files of an unpacked Grafana archive."""
    program = home / "bin" / "grafana"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (home / "conf").mkdir()
    (home / "conf" / "defaults.ini").touch()
    return home


def test_it_is_found_where_it_is_named_or_on_the_path_or_where_packages_put_it(tmp_path: Path) -> None:
    assert GrafanaServer.find({"PATH": ""}, tmp_path) is None
    package = install(tmp_path / "usr" / "share" / "grafana")
    found = GrafanaServer.find({"PATH": ""}, tmp_path)
    assert found is not None
    assert (found.home, found.program) == (package, package / "bin" / "grafana")
    # Grafana's package has a wrapper on the path, with its own settings.
    wrapper = tmp_path / "usr" / "sbin" / "grafana"
    wrapper.parent.mkdir()
    wrapper.write_text("#!/bin/sh\n")
    wrapper.chmod(0o755)
    assert GrafanaServer.find({"PATH": str(wrapper.parent)}, tmp_path) == found
    archive = install(tmp_path / "grafana-12.4.12")
    link = tmp_path / "bin"
    link.mkdir()
    (link / "grafana").symlink_to(archive / "bin" / "grafana")
    on_path = GrafanaServer.find({"PATH": str(link)}, tmp_path)
    assert on_path is not None
    assert on_path.home == archive
    assert GrafanaServer.find({"PATH": str(link), "GRAFANA_HOME": str(package)}, tmp_path) == found
    with pytest.raises(BadRequest, match=r"GRAFANA_HOME is /nowhere, but that holds no Grafana: bin/grafana"):
        GrafanaServer.find({"PATH": str(link), "GRAFANA_HOME": "/nowhere"}, tmp_path)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("/tmp/hypergauge-0-abc", "/tmp/hypergauge-0-abc"),
        ("db.example", "db.example:5433"),
        ("fd00::1", "[fd00::1]:5433"),
        ("/home/a$b", "/home/a$$b"),
    ],
)
def test_the_data_source_is_that_of_docker_compose_with_another_database(tmp_path: Path, host: str, url: str) -> None:
    reader = Reader(host, 5433, "lab", "ann", SERVER, "pa$$word", "verify-full", "/etc/ca.pem")
    _, environment = GrafanaServer(tmp_path, tmp_path / "grafana").command(tmp_path / "own", reader, 3000, MLFLOW)
    text = (tmp_path / "own" / "provisioning" / "datasources" / "bench.yaml").read_text()
    [source] = yaml.safe_load(text)["datasources"]
    assert "pa$$word" not in text
    assert environment["BENCH_READER_PASSWORD"] == "pa$$word"
    assert (source["url"], source["user"], source["uid"]) == (url, "ann", "bench")
    options: dict[str, Any] = source["jsonData"]
    assert options["timescaledb"] is True
    assert options["timeInterval"] == "1s"
    assert {name: options[name] for name in ("database", "sslmode", "sslRootCertFile", "postgresVersion")} == {
        "database": "lab", "sslmode": "verify-full", "sslRootCertFile": "/etc/ca.pem", "postgresVersion": 1700,
    }  # fmt: skip


def test_the_dashboards_lead_to_the_mlflow_that_runs_beside_it(tmp_path: Path) -> None:
    reader = Reader("/tmp", 5432, "postgres", "bench_reader", SERVER)
    own = tmp_path / "own"
    _, environment = GrafanaServer(tmp_path, tmp_path / "grafana").command(own, reader, 3000, MLFLOW)
    [provider] = yaml.safe_load((own / "provisioning" / "dashboards" / "bench.yaml").read_text())["providers"]
    found = {path.stem: json.loads(path.read_text()) for path in Path(provider["options"]["path"]).iterdir()}
    assert set(found) == set(BOARDS)
    assert Path(environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]).is_file()
    queries = [one["query"] for made in found.values() for one in made["templating"]["list"] if one["name"] == "mlflow"]
    assert queries
    assert set(queries) == {MLFLOW}


def test_its_secrets_are_made_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    reader = Reader("/tmp", 5432, "postgres", "bench_reader", SERVER)
    server = GrafanaServer(tmp_path, tmp_path / "grafana")
    _, first = server.command(tmp_path / "own", reader, 3000, MLFLOW)
    _, second = server.command(tmp_path / "own", reader, 3000, MLFLOW)
    _, other = server.command(tmp_path / "other", reader, 3000, MLFLOW)
    names = ("GF_SECURITY_ADMIN_PASSWORD", "GF_SECURITY_SECRET_KEY")
    assert [first[name] for name in names] == [second[name] for name in names]
    assert len({first[name] for name in names} | {other[name] for name in names}) == 4
    assert (tmp_path / "own").stat().st_mode & 0o077 == 0
    assert (tmp_path / "own" / "admin-password").stat().st_mode & 0o077 == 0
