"""``bench doctor --tls``: findings on certificates and on the connection to the database."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.support.servers import installed_timescale
from hypergauge.cli import app
from hypergauge.core.pages import Page
from tests.conftest import NewFolder
from tests.support.servers.certificates import Site

HERE = socket.gethostname()


def doctor(home: Path, *, web: Path | None = None, dsn: str | None = None) -> Any:
    """Return its answer in JSON, with its exit status as ``status``."""
    variables = {"BENCH_HOME": str(home), "BENCH_WEB_CONFIG": str(web) if web else None, "BENCH_DSN": dsn}
    done = CliRunner().invoke(app, ["doctor", "--tls", "--json"], env=variables)
    return {"findings": json.loads(done.stdout), "status": done.exit_code}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_good_certificates_are_checked_and_nothing_is_written(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    site.issue(HERE, days=90, stem="good")
    checked = doctor(tmp_path / "home", web=site.web("good"))
    assert checked["status"] == 0
    assert [one["ok"] for one in checked["findings"]] == [True, True, True]
    assert not (tmp_path / "home").exists()


def test_a_host_without_connections_to_others_has_nothing_to_check(tmp_path: Path) -> None:
    checked = doctor(tmp_path / "home")
    assert checked["status"] == 0
    assert [(one["what"], one["ok"]) for one in checked["findings"]] == [("TLS", True)]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("expired", "has expired, on "),
        ("early", "is valid only from "),
        ("soon", "ends soon: valid until "),
        ("name", "it is for elsewhere"),
        ("chain", "unable to get local issuer certificate"),
        ("key", "the key is not that of the certificate"),
        ("mode", "(mode 644)"),
        ("login", "lacks authentication"),
    ],
)
def test_what_is_wrong_with_the_sites_own_is_found(tmp_path: Path, wrong: str, expected: str) -> None:
    site, others = Site(tmp_path / "site"), Site(tmp_path / "others", "another site")
    since, days = {"expired": (60, 30), "early": (-3, 90), "soon": (0, 20)}.get(wrong, (0, 90))
    made = others if wrong == "chain" else site
    made.issue("elsewhere" if wrong == "name" else HERE, since_days=since, days=days, stem="server")
    if wrong == "chain":
        shutil.copy(site.folder / "ca.pem", others.folder / "ca.pem")
    if wrong == "key":
        site.issue(HERE, stem="second")
        shutil.copy(site.folder / "second.key", site.folder / "server.key")
    if wrong == "mode":
        (site.folder / "server.key").chmod(0o644)
    checked = doctor(tmp_path / "home", web=made.web("server", clients=wrong != "login"))
    assert checked["status"] == 1
    problems = [one["detail"] for one in checked["findings"] if not one["ok"]]
    assert expected in " ".join(problems)
    assert all(Page.TLS.address in one for one in problems)


def test_the_certificate_of_a_remote_database_is_checked(tmp_path: Path, postgresql_dsn: str) -> None:
    [found] = doctor(tmp_path, dsn=postgresql_dsn)["findings"]
    assert found["ok"]
    assert found["detail"].startswith("on this host")
    [found] = doctor(tmp_path, dsn="postgresql://ann:hunter2@127.0.0.1:1/bench")["findings"]
    assert not found["ok"]
    assert "hunter2" not in found["detail"]


def test_a_database_with_a_certificate_of_these(tmp_path: Path, new_folder: NewFolder) -> None:
    """A real one, which answers over TLS alone: by its name and its authority, and by no others."""
    site = Site(tmp_path / "site")
    site.issue("db.example", stem="cert")
    folder = site.folder
    # Which comes with a PostgreSQL that was built with TLS.
    place = new_folder() / "server"
    if (server := installed_timescale(place, libraries=["sslinfo"])) is None:
        pytest.skip("no PostgreSQL with TLS and TimescaleDB is installed")
    server.acquire()
    server.release()
    for file, name in (("cert.pem", "cert.pem"), ("cert.key", "key.pem")):
        shutil.copy(folder / file, server.data / name)
        os.chown(server.data / name, server.data.stat().st_uid, server.data.stat().st_gid)
    with (server.data / "pg_hba.conf").open("a") as rules:
        rules.write("hostssl all all 127.0.0.0/8 trust\n")
    address = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.1"
    settings = {"listen_addresses": address, "unix_socket_directories": "", "ssl": "on"} | {
        f"ssl_{what}_file": f"{what}.pem" for what in ("cert", "key")
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    log = str(place / "tls.log")
    assert server.programs.control(server.data, "-w", "-s", "-l", log, "-o", options, "start") == 0
    try:
        base = f"postgresql://postgres@db.example/postgres?hostaddr={address}"
        full = f"{base}&sslmode=verify-full&sslrootcert={folder / 'ca.pem'}"
        Site(tmp_path / "another", "another")
        for dsn, ok, expected in (
            (full, True, "db.example over TLS, its certificate verified"),
            (
                base,
                False,
                "db.example over TLS without verification of the certificate (sslmode=prefer): add sslmode=verify-full",
            ),
            (full.replace("@db.example/", "@node7/"), False, "does not match host name"),
            (full.replace(str(folder), str(tmp_path / "another")), False, "certificate verify failed"),
        ):
            [found] = doctor(tmp_path, dsn=dsn)["findings"]
            assert found["ok"] == ok
            assert expected in found["detail"]
    finally:
        server.programs.stop(server.data)
