"""``bench doctor --tls``: what it makes is used over the network, and what is wrong with others' it finds."""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.servers import installed_timescale
from hypergauge.cli import app
from hypergauge.core.errors import BadRequest
from hypergauge.core.http.certificate_authority import Authority
from hypergauge.core.http.server import MetricsServer
from tests.conftest import NewFolder
from tests.support.certificates import Site
from tests.support.waiting import HUNG_SECONDS

HERE = socket.gethostname()


def doctor(home: Path, *words: str, web: Path | None = None, dsn: str | None = None) -> Any:
    """Return its answer in JSON, with its exit status as ``status``."""
    variables = {"BENCH_HOME": str(home), "BENCH_WEB_CONFIG": str(web) if web else None, "BENCH_DSN": dsn}
    done = CliRunner().invoke(app, ["doctor", "--tls", *words, "--json"], env=variables)
    if isinstance(done.exception, BadRequest):
        raise done.exception
    return {**json.loads(done.stdout), "status": done.exit_code}


def states(answer: Any) -> dict[str, str]:
    return {one["host"] or "": one["state"] for one in answer["issued"]}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_it_makes_is_trusted_by_its_own_and_stays_while_it_is_good(tmp_path: Path) -> None:
    made = doctor(tmp_path, "--host", "node7,192.0.2.7", "--host", "node8")
    assert states(made) == {"": "made", HERE: "made", "node7": "made", "node8": "made"}
    folder = tmp_path / "tls"
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder / "node7").iterdir()}
    assert modes == {"ca.pem": 0o644, "cert.pem": 0o644, "key.pem": 0o600, "web.yml": 0o644}
    assert (folder / "ca.key").stat().st_mode & 0o777 == 0o600
    node7, node8 = folder / "node7", folder / "node8"
    with MetricsServer(lambda: b"a 1\n", "0.0.0.0", web=node7 / "web.yml") as server:
        asking = Site.trusting(node8 / "ca.pem", node8 / "cert.pem", node8 / "key.pem")
        with urllib.request.urlopen(
            server.url.replace("0.0.0.0", "localhost"), context=asking, timeout=HUNG_SECONDS
        ) as answer:
            assert answer.read() == b"a 1\n"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert set(states(doctor(tmp_path)).values()) == {"kept"}
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if (openssl := shutil.which("openssl")) is not None:
        words = [
            "verify",
            "-x509_strict",
            "-purpose",
            "sslserver",
            "-verify_ip",
            "192.0.2.7",
            "-CAfile",
            "ca.pem",
            "cert.pem",
        ]
        done = subprocess.run([openssl, *words], cwd=node7, capture_output=True, text=True, check=False)
        assert done.stdout == "cert.pem: OK\n", done.stderr


def test_what_ends_soon_or_lacks_a_name_is_renewed(tmp_path: Path) -> None:
    doctor(tmp_path, "--host", "node7", "--host", "node8")
    folder = tmp_path / "tls"
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=340)
    cert, key = Authority.read(folder).issue(["node7", "localhost", "127.0.0.1", "::1"], since=since)
    (folder / "node7" / "cert.pem").write_bytes(cert)
    (folder / "node7" / "key.pem").write_bytes(key)
    (folder / "node7" / "web.yml").write_text("# mine\n")
    again = doctor(tmp_path, "--host", "node8,192.0.2.8")
    assert states(again) == {"": "kept", HERE: "kept", "node7": "renewed", "node8": "renewed"}
    assert (folder / "node7" / "web.yml").read_text() == "# mine\n"
    [node8] = [one for one in again["issued"] if one["host"] == "node8"]
    assert node8["names"] == ["node8", "192.0.2.8", "localhost", "127.0.0.1", "::1"]
    assert set(states(doctor(tmp_path)).values()) == {"kept"}


@pytest.mark.parametrize("name", ["", "node 7", "../node7", "a/b", "-x"])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRequest, match="is no name of a host"):
        doctor(tmp_path, "--host", name or ",")


def test_a_key_that_is_anothers_is_refused(tmp_path: Path) -> None:
    doctor(tmp_path)
    Authority.make("another").write(tmp_path / "another")
    shutil.copy(tmp_path / "another" / "ca.key", tmp_path / "tls" / "ca.key")
    with pytest.raises(BadRequest, match=r"ca\.key: is not the key of"):
        doctor(tmp_path)


def test_the_sites_own_certificates_are_checked_and_nothing_is_made(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    site.issue(HERE, days=90, stem="good")
    checked = doctor(tmp_path / "home", web=site.web("good"))
    assert (checked["status"], checked["issued"]) == (0, [])
    assert [one["ok"] for one in checked["findings"]] == [True, True, True]
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("expired", "has expired, on "),
        ("early", "holds only from "),
        ("soon", "ends soon: it holds until "),
        ("name", "it is for elsewhere"),
        ("chain", "unable to get local issuer certificate"),
        ("key", "the key is not that of the certificate"),
        ("mode", "everybody may read it (mode 644)"),
        ("login", "lacks authentication"),
    ],
)
def test_what_is_wrong_with_the_sites_own_is_found(tmp_path: Path, wrong: str, said: str) -> None:
    site, others = Site(tmp_path / "site"), Site(tmp_path / "others", "somebody else")
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
    assert said in " ".join(one["detail"] for one in checked["findings"] if not one["ok"])


def test_a_database_elsewhere_is_asked_for_its_certificate(tmp_path: Path, postgresql_dsn: str) -> None:
    [found] = doctor(tmp_path, dsn=postgresql_dsn)["findings"]
    assert found["ok"]
    assert found["detail"].startswith("on this host")
    [found] = doctor(tmp_path, dsn="postgresql://ann:hunter2@127.0.0.1:1/bench")["findings"]
    assert not found["ok"]
    assert "hunter2" not in found["detail"]


def test_a_database_with_a_certificate_of_these(tmp_path: Path, new_folder: NewFolder) -> None:
    """A real one, which answers over TLS alone: by its name and its authority, and by no others."""
    doctor(tmp_path, "--host", "db.example")
    folder = tmp_path / "tls" / "db.example"
    # Which comes with a PostgreSQL that was built with TLS.
    place = new_folder() / "server"
    if (server := installed_timescale(place, libraries=["sslinfo"])) is None:
        pytest.skip("no PostgreSQL with TLS and TimescaleDB is installed")
    server.acquire()
    server.release()
    for name in ("cert.pem", "key.pem"):
        shutil.copy(folder / name, server.data)
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
        Authority.make("another").write(tmp_path / "another")
        for dsn, ok, said in (
            (full, True, "db.example over TLS, its certificate verified"),
            (base, False, "db.example over TLS, but nobody looks whose (sslmode=prefer): add sslmode=verify-full"),
            (full.replace("@db.example/", "@node7/"), False, "does not match host name"),
            (full.replace(str(folder), str(tmp_path / "another")), False, "certificate verify failed"),
        ):
            [found] = doctor(tmp_path, dsn=dsn)["findings"]
            assert found["ok"] == ok
            assert said in found["detail"]
    finally:
        server.programs.stop(server.data)
