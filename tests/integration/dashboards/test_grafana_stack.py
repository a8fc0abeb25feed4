"""`bench up` with a Grafana: the dashboards on the home's own database, for users of this host."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.services import Stack
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.reader import reader
from tests.conftest import NewFolder
from tests.support.fakes import grafana as fake_grafana
from tests.support.home import Home
from tests.support.waiting import HUNG_SECONDS


@pytest.fixture
def grafana(tmp_path: Path) -> Path:
    """The folder of an installed Grafana."""
    home = tmp_path / "grafana"
    program = home / "bin" / "grafana"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\n{Path(fake_grafana.__file__).read_text()}")
    program.chmod(0o755)
    (home / "conf").mkdir()
    (home / "conf" / "defaults.ini").touch()
    return home


@pytest.fixture
def home(new_folder: NewFolder, tmp_path: Path, grafana: Path) -> Iterator[Home]:
    made = Home(new_folder(), tmp_path, {"GRAFANA_HOME": str(grafana)})
    # An MLflow elsewhere: starting one takes most of the time.
    made.variables["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"
    yield made
    made.bench("down", "--force")
    made.end()


def fetch(url: str, path: str, body: object = None, login: str | None = None) -> tuple[int, Any]:
    """Send a request to Grafana, and return status and response."""
    request = urllib.request.Request(url + path, data=None if body is None else json.dumps(body).encode())
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=HUNG_SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def query(url: str, statement: str) -> tuple[int, Any]:
    one = {"refId": "A", "datasource": {"uid": "bench"}, "rawSql": statement}
    return fetch(url, "/api/ds/query", {"queries": [one]})


@pytest.mark.slow
def test_it_is_started_shown_and_stopped(home: Home) -> None:
    output = home.bench("up")
    assert "up grafana http://127.0.0.1:" in output
    service = home.json("status")["services"]["grafana"]
    assert service["up"]
    url = service["url"]
    dashboards = {one["uid"] for one in fetch(url, "/api/search")[1]}
    assert {"bench-intra", "bench-inter", "bench-mixed"} <= dashboards

    assert query(url, "select current_user, count(*) from bench.runs") == (200, {"rows": [["bench_reader", "0"]]})
    for statement in ("delete from bench.runs", "set role postgres", "select pg_read_file('/etc/passwd')"):
        status, answer = query(url, statement)
        assert status == 400, statement
        assert "denied" in answer["error"] or "read-only" in answer["error"]

    assert fetch(url, "/api/user") == (200, {"role": "Viewer"})
    password = (home.path / "grafana" / "admin-password").read_text()
    assert fetch(url, "/api/user", login=f"admin:{password}") == (200, {"role": "Admin"})

    pushed = home.json("dashboards", "push")
    assert pushed["grafana"] == url
    assert {one["done"] for one in pushed["dashboards"]} == {"provisioned"}
    assert pushed["warnings"] == []

    assert "Starting grafana" not in home.bench("up"), "it runs"
    assert "grafana" in home.bench("down")
    with pytest.raises(OSError):
        fetch(url, "/api/health")
    home.bench("up")
    assert (home.path / "grafana" / "admin-password").read_text() == password


def test_status_queries_a_remote_one(home: Home) -> None:
    home.variables["BENCH_GRAFANA_URL"] = "http://ann:secret@127.0.0.1:9/grafana/"
    assert home.json("status")["services"]["grafana"] == {
        "up": False,
        "url": "http://127.0.0.1:9/grafana",
        "differs": [],
    }


@pytest.mark.slow
def test_runs_do_not_start_it(home: Home) -> None:
    home.bench("run", "--", sys.executable, "-c", "pass")
    assert not (home.path / "grafana").exists()


@pytest.mark.slow
def test_one_that_does_not_start_keeps_nothing_from_being_measured(home: Home, grafana: Path) -> None:
    (grafana / "bin" / "grafana").write_text("#!/bin/sh\necho no room left\nexit 1\n")
    output = home.bench("up", status=1)
    assert "grafana ended; its log" in output
    assert "no room left" in output
    services = home.json("status")["services"]
    assert services["collector"]["up"]
    assert "grafana" not in services


@pytest.mark.slow
def test_without_one_doctor_shows_how_to_get_it(home: Home, grafana: Path) -> None:
    def finding() -> dict[str, Any]:
        return next(one for one in home.json("doctor") if one["what"] == "Grafana")

    assert finding() == {"what": "Grafana", "ok": True, "detail": f"{grafana}; `bench up` starts it"}
    shutil.rmtree(grafana)
    assert "GRAFANA_HOME is" in finding()["detail"]
    assert "GRAFANA_HOME is" in home.bench("up", status=2)
    del home.variables["GRAFANA_HOME"]
    home.variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}/bin"
    if not Path("/usr/share/grafana").exists():
        assert "install the package grafana" in finding()["detail"]
        assert "grafana" not in home.bench("up")


def test_a_database_of_ones_own_needs_a_role_that_may_only_read(database: Database, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="BENCH_READ_DSN"):
        reader(database)
    name = f"reader_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(database.dsn, autocommit=True) as admin:
        admin.execute(f"create role {name} login in role bench_reader".encode())
    try:
        as_writer = Settings(home=tmp_path, dsn=database.dsn, read_dsn=database.dsn)
        with pytest.raises(BadRequest, match="BENCH_READ_DSN logs in as postgres"):
            reader(Database(as_writer))
        as_reader = Settings(home=tmp_path, dsn=database.dsn, read_dsn=conninfo.make_conninfo(database.dsn, user=name))
        found = reader(Database(as_reader))
        assert (found.user, found.sslmode) == (name, "disable")
        assert found.host.startswith("/")
    finally:
        with psycopg.connect(database.dsn, autocommit=True) as admin:
            admin.execute(f"drop role {name}".encode())


def test_a_port_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert Stack(Settings(home=tmp_path)).port("grafana", port) != port
    assert Stack(Settings(home=tmp_path)).port("grafana", port) == port
