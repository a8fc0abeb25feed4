"""Exporters and the collector over TLS, with real certificates and other clients."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import socket
import ssl
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest
from cryptography import x509
from typer.testing import CliRunner

from hypergauge.cli import app
from hypergauge.collector.http.access import Access, Secret
from hypergauge.collector.http.fetch import Fetcher, FetchFailed
from hypergauge.core.errors import BadRequest
from hypergauge.core.http.checks import names_of
from hypergauge.core.http.server import MetricsServer
from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import NewFolder
from tests.support.collector.process import Collecting
from tests.support.servers.certificates import Site
from tests.support.waiting import HUNG_SECONDS, wait_for

BODY = b"room_celsius 21.5\n"
LOGIN = "  ann: $2b$04$LVaUT0TLTqjRpQwt1ti/xu8XWqn4bdQgUhZcoszP/g80zIlN1Wrp6\n"  # hunter2


@pytest.fixture(scope="module")
def site(new_folder: NewFolder) -> Site:
    """Certificates of a server and a client, valid and invalid."""
    made = Site(new_folder() / "site")
    made.issue("localhost", "127.0.0.1", stem="server")
    made.issue("node7", stem="elsewhere")
    made.issue("localhost", "127.0.0.1", since_days=40, stem="expired")
    made.issue("collector", stem="client")
    made.issue("collector", since_days=40, stem="former")
    return made


@pytest.fixture(scope="module")
def other_site(new_folder: NewFolder) -> Site:
    made = Site(new_folder() / "other", "another authority")
    made.issue("collector", stem="client")
    made.issue("localhost", "127.0.0.1", stem="server")
    return made


def serving(web: Path | None) -> MetricsServer:
    return MetricsServer(lambda: BODY, web=web)


def fetch(url: str, access: Access) -> bytes:
    async def get() -> bytes:
        async with Fetcher() as fetcher:
            return (await fetcher.body(url, access, limit=1000, seconds=20)).data

    return asyncio.run(get())


def why_not(url: str, access: Access) -> str:
    """Return the collector's message for a failing scrape."""
    with pytest.raises(FetchFailed) as failed:
        fetch(url, access)
    assert failed.value.reason in ("tls", "status")
    return str(failed.value)


@pytest.mark.parametrize("version", ["TLS12", "TLS13"])
def test_client_certificates(site: Site, other_site: Site, version: str) -> None:
    web = site.web("server", extra=f"  min_version: {version}\n  max_version: {version}\n")
    theirs = other_site.tls("client")
    with serving(web) as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert fetch(server.url, Access(tls=site.tls("client"))) == BODY
        without = why_not(server.url, Access(tls=site.tls()))
        assert without.startswith("it refuses our certificate (cert_file and key_file of tls_config)")
        known_to_others = dataclasses.replace(theirs, ca=site.tls().ca)
        assert why_not(server.url, Access(tls=known_to_others)).endswith("unknown ca")
        assert why_not(server.url, Access(tls=site.tls("former"))).endswith("certificate expired")
        assert "self-signed certificate" in why_not(server.url, Access(tls=theirs))
        plain = why_not(server.url.replace("https", "http"), Access())
        assert plain.endswith("it speaks only HTTPS (scheme: https)")


def test_server_certificates(site: Site) -> None:
    access = Access(tls=site.tls("client"))
    with serving(site.web("expired")) as server:
        assert why_not(server.url, access) == "its certificate is not trusted: certificate has expired"
    with serving(site.web("elsewhere")) as server:
        assert "not valid for '127.0.0.1'" in why_not(server.url, access)
        named = dataclasses.replace(site.tls("client"), server_name="node7")
        assert fetch(server.url, Access(tls=named)) == BODY
    with serving(None) as server:
        assert why_not(server.url.replace("http", "https"), access) == "it speaks no TLS (scheme: http)"


def test_only_certificates_for_certain_names(site: Site) -> None:
    with serving(site.web("server", extra="  client_allowed_sans: [collector, 192.0.2.1]\n")) as server:
        assert fetch(server.url, Access(tls=site.tls("client"))) == BODY
        assert why_not(server.url, Access(tls=site.tls("server"))) == "it answered 403 Forbidden"


def test_basic_authentication(site: Site) -> None:
    with serving(site.web("server", clients=False, users=LOGIN)) as server:
        for name, password, right in (
            ("ann", "hunter2", True), ("ann", "hunter2", True), ("ann", "hunter3", False), ("bob", "hunter2", False),
            ("ann", "", False), ("", "hunter2", False), ("ann", "x" * 100, False),
        ):  # fmt: skip
            access = Access(Secret(name), Secret(password), tls=site.tls())
            if right:
                assert fetch(server.url, access) == BODY
            else:
                message = why_not(server.url, access)
                assert message == "it answered 401 Unauthorized: basic_auth, or authorization, is missing or wrong"
        assert "401" in why_not(server.url, Access(credentials=Secret("hunter2"), tls=site.tls()))
        assert "401" in why_not(server.url, Access(tls=site.tls()))


def test_other_clients(site: Site) -> None:
    """Python and OpenSSL."""
    with serving(site.web("server")) as server:
        with urllib.request.urlopen(server.url, context=site.client_context("client"), timeout=HUNG_SECONDS) as answer:
            assert answer.read() == BODY
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        files = ["-CAfile", "ca.pem", "-cert", "client.pem", "-key", "client.key"]
        done = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-verify_return_error", "-quiet",
             "-verify_ip", "127.0.0.1", *files],
            input=b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            cwd=site.folder, capture_output=True, timeout=HUNG_SECONDS, check=True,
        )  # fmt: skip
        assert done.stdout.endswith(BODY)


def test_a_silent_client_delays_no_other(site: Site) -> None:
    with serving(site.web("server")) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        silent[0].sendall(b"\x16\x03\x01")  # the beginning of a greeting
        assert fetch(server.url, Access(tls=site.tls("client"))) == BODY
        for one in silent:
            one.close()


def shown(port: int) -> list[str]:
    """Return the names in a server's certificate."""
    return names_of(x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode()))


def test_an_open_connection_at_the_servers_end_is_no_error(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    context = ssl.create_default_context(cafile=str(site.folder / "ca.pem"))
    with (
        serving(site.web("server", clients=False)) as server,
        socket.create_connection(("127.0.0.1", server.port)) as plain,
    ):
        before = set(threading.enumerate())
        connection = context.wrap_socket(plain, server_hostname="localhost")
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(8) == b"HTTP/1.1"
        answering = set(threading.enumerate()) - before
    for thread in answering:
        thread.join(HUNG_SECONDS)
        assert not thread.is_alive()
    assert caplog.records == []
    connection.close()


def test_a_renewed_certificate_is_loaded(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.issue("before", stem="renewed")
    site.issue("after", stem="new")
    web = site.web("renewed", clients=False, users=LOGIN)
    with serving(web) as server:
        assert shown(server.port) == ["before"]
        (site.folder / "new.key").rename(site.folder / "renewed.key")
        assert shown(server.port) == shown(server.port) == ["before"], "the new key does not fit the old certificate"
        [message] = [record.message for record in caplog.records]
        assert "renewed.key: the key is not that of the certificate" in message
        assert message.endswith("renewed.pem; the previous files stay in use")
        (site.folder / "new.pem").rename(site.folder / "renewed.pem")
        assert shown(server.port) == ["after"]
        web.write_text(web.read_text().partition("basic_auth_users")[0])
        assert "401" in why_not(server.url, Access(tls=dataclasses.replace(site.tls(), server_name="after")))
        assert "it no longer has authentication, which takes a restart" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tls_server_config: {cert_file: server.pem}", "1:20: there is no key_file"),
        (
            "tls_server_config: {cert_file: absent.pem, key_file: server.key}",
            "absent.pem: cannot be read: No such file",
        ),
        ("tls_server_config: {cert_file: server.pem, key_file: client.key}", "the key is not that of the certificate"),
        ("tls_server_config: {cert_file: server.key, key_file: server.key}", "is not a PEM certificate"),
        ("tls_server_config: {cert_fil: server.pem}", "1:21: unknown key 'cert_fil' (did you mean 'cert_file'?)"),
        ("tls_server_config: {cipher_suites: []}", "'cipher_suites' is a field of Prometheus's that is not supported"),
        ("tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}", "go together"),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}",
            "RequireAndVerifyClientCert",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireCert}",
            "unknown 'RequireCert' (did you mean",
        ),
        ("tls_server_config: {cert_file: a, key_file: b, client_allowed_sans: [c]}", "it takes client_auth_type"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS11}", "unknown 'TLS11' (did you mean 'TLS1"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS13, max_version: TLS12}", "below min_version"),
        ("basic_auth_users: {ann: hunter2}", "1:25: not a bcrypt hash"),
        ("tls: {}", "unknown key 'tls'"),
        ("[]", "expected a mapping"),
    ],
)
def test_a_web_yml_with_an_error_is_refused(site: Site, content: str, message: str) -> None:
    web = site.folder / "bad.yml"
    web.write_text(content + "\n")
    with pytest.raises(BadRequest) as refused:
        serving(web)
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("clients", "users", "tls", "missing"),
    [
        (True, "", True, None),
        (False, LOGIN, True, None),
        (False, "", True, "there is no authentication in "),
        (False, LOGIN, False, "there is no TLS in "),
    ],
)
def test_binding_a_public_address_needs_tls_and_authentication(
    site: Site, clients: bool, users: str, tls: bool, missing: str | None
) -> None:
    web = site.web("server", clients=clients, users=users)
    if not tls:
        web.write_text(web.read_text()[web.read_text().index("basic_auth") :])
    if missing is None:
        with MetricsServer(lambda: BODY, "0.0.0.0", web=web) as server:
            assert server.url == f"https://0.0.0.0:{server.port}/metrics"
        return
    with pytest.raises(BadRequest, match=f"'0.0.0.0' may be reached from other hosts, and {missing}"):
        MetricsServer(lambda: BODY, "0.0.0.0", web=web)


@pytest.mark.parametrize("command", ["exporter run host", "collector run", "rules run"])
def test_no_command_binds_a_public_address_without_protection(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*command.split(), "--bind", "0.0.0.0"])
    assert isinstance(done.exception, BadRequest)
    assert "neither TLS nor authentication" in str(done.exception)


@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])
def test_a_collector_scrapes_and_serves_over_tls(site: Site, dsn: str, new_folder: NewFolder, tmp_path: Path) -> None:
    site.issue("localhost", "127.0.0.1", since_days=40, stem="due")
    targets = tmp_path / "targets.json"
    tls = {
        name: str(site.folder / file)
        for name, file in (("ca_file", "ca.pem"), ("cert_file", "client.pem"), ("key_file", "client.key"))
    }
    with serving(site.web("server")) as good, serving(site.web("due")) as due:
        jobs = [
            {
                "job_name": name,
                "scheme": "https",
                "tls_config": tls,
                "static_configs": [{"targets": [f"localhost:{one.port}"]}],
            }
            for name, one in (("good", good), ("due", due))
        ]
        targets.write_text(json.dumps({"scrape_configs": jobs}))
        options = ["--web-config", str(site.web("server")), "--bind", "0.0.0.0"]
        with Collecting(dsn, new_folder() / "over-tls", targets, options, web=site) as collector:
            wait_for(
                lambda: collector.metric("targets") == {"up": 1, "down": 1, "taken": 0, "paused": 0}, "both scrapes"
            )
            assert "certificate has expired" in collector.output()
            variables = {"BENCH_DSN": dsn, "BENCH_HOME": str(tmp_path / "home")}

            def failing() -> list[dict[str, str]]:
                done = CliRunner().invoke(app, ["status", "--json"], env=variables)
                return list(json.loads(done.stdout)["failing"])

            [one] = wait_for(failing, "the error in bench status")
            assert (one["listener"], one["error"]) == ("due", "its certificate is not trusted: certificate has expired")
            site.issue("localhost", "127.0.0.1", stem="due")
            wait_for(lambda: collector.metric("targets")["up"] == 2, "the renewed certificate")
            wait_for(lambda: not failing(), "the end of the error")
            collector.stop()
