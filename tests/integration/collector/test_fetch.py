"""Logins and TLS against a real server; no error shows a secret."""

from __future__ import annotations

import asyncio
import base64
import os
import selectors
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.servers import exporter
from hypergauge.collector.http.access import TLS, Access, Secret
from hypergauge.collector.http.fetch import Fetcher, FetchFailed
from tests.conftest import NewFolder
from tests.support.waiting import HUNG_SECONDS

LOGIN = f"Basic {base64.b64encode(b'me:hunter2').decode()}"


class Handler(BaseHTTPRequestHandler):
    """Server whose paths need different credentials."""

    def do_GET(self) -> None:
        wanted = {"/basic": LOGIN, "/bearer": "Bearer hunter2", "/token": "Token hunter2"}
        if self.path == "/elsewhere":
            assert isinstance(self.server, ThreadingHTTPServer)
            self.send_response(302)
            self.send_header("Location", f"https://localhost:{self.server.server_port}/echo")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        given = self.headers.get("Authorization", "")
        body = given.encode() if self.path == "/echo" else b"a 1\n"
        self.send_response(200 if self.path not in wanted or given == wanted[self.path] else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@dataclass(frozen=True)
class Server:
    url: str
    folder: Path

    def file(self, name: str) -> Secret:
        return Secret(file=self.folder / name)


@pytest.fixture(scope="module")
def server(new_folder: NewFolder) -> Iterator[Server]:
    """Server with a certificate for n1.example from its own authority, which requires one of clients."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl, which makes the certificates, is not installed")
    folder = new_folder()
    for name in ("n1.example", "client"):
        subprocess.run(
            [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={name}",
             "-addext", f"subjectAltName=DNS:{name}", "-keyout", f"{name}.key", "-out", f"{name}.pem"],
            check=True, cwd=folder, capture_output=True,
        )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "n1.example.pem", folder / "n1.example.key")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(folder / "client.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Server(f"https://127.0.0.1:{server.server_port}", folder)
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(url: str, access: Access, timeout: float = 30) -> bytes:
    selector = selectors.DefaultSelector()

    async def get() -> bytes:
        idle = len(selector.get_map())
        try:
            async with Fetcher() as fetcher:
                return (await fetcher.body(url, access, limit=1000, seconds=timeout)).data
        finally:
            while len(selector.get_map()) > idle:  # noqa: ASYNC110 - a refused TLS connection closes later, in silence
                await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(get())


def tls(server: Server) -> TLS:
    return TLS(server.file("n1.example.pem"), server.file("client.pem"), server.file("client.key"), "n1.example")


def test_credentials_inline_and_from_files(server: Server) -> None:
    secret = server.folder / "secret"
    secret.write_text("hunter2\n")
    for password in (Secret("hunter2"), Secret(file=secret)):
        for path, access in (
            ("basic", Access(username=Secret("me"), password=password, tls=tls(server))),
            ("bearer", Access(credentials=password, tls=tls(server))),
            ("token", Access(scheme="Token", credentials=password, tls=tls(server))),
        ):
            assert fetch(f"{server.url}/{path}", access) == b"a 1\n"
    with pytest.raises(FetchFailed, match="it answered 401") as refused:
        fetch(f"{server.url}/basic", Access(username=Secret("me"), password=Secret("hunter3"), tls=tls(server)))
    assert refused.value.reason == "status"


def test_inline_certificates(server: Server) -> None:
    ca, cert, key = (Secret(server.file(name).read() + "\n") for name in ("n1.example.pem", "client.pem", "client.key"))
    inline = TLS(ca, cert, key, "n1.example")
    assert fetch(f"{server.url}/", Access(tls=inline)) == b"a 1\n"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"ca": None}, "tls"),
        ({"server_name": "n2.example"}, "tls"),
        ({"cert": None, "key": None}, None),
        ({"ca": None, "server_name": None, "insecure_skip_verify": True}, "ok"),
        ({"ca": Secret(file=Path("absent.pem"))}, "credentials"),
        ({"key": Secret("hunter2")}, "credentials"),
    ],
)
def test_trusted_servers(server: Server, changed: dict[str, Any], reason: str | None) -> None:
    of = tls(server)
    given = {name: getattr(of, name) for name in ("ca", "cert", "key", "server_name")} | changed
    access = Access(tls=TLS(**given))
    if reason == "ok":
        assert fetch(f"{server.url}/", access) == b"a 1\n"
        return
    with pytest.raises(FetchFailed) as refused:
        fetch(f"{server.url}/", access)
    assert "hunter2" not in str(refused.value)
    if reason is not None:  # without a client's certificate TLS 1.3 breaks off later, in one of several ways
        assert refused.value.reason == reason


def test_redirects_carry_no_secret_to_another_origin(server: Server) -> None:
    of = tls(server)
    trusting = TLS(of.ca, of.cert, of.key, None, insecure_skip_verify=True)
    access = Access(credentials=Secret("hunter2"), tls=trusting)
    assert fetch(f"{server.url}/echo", access) == b"Bearer hunter2"
    assert fetch(f"{server.url}/elsewhere", access) == b"", "localhost is another origin than 127.0.0.1"
    with pytest.raises(FetchFailed, match="it answered 302"):
        fetch(f"{server.url}/elsewhere", Access(tls=trusting, follow_redirects=False))


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """File whose reads hang, as on an unreachable file server."""
    os.mkfifo(path := tmp_path / "hung")
    yield path
    for fifo in tmp_path.iterdir():
        if fifo.is_fifo():
            os.close(os.open(fifo, os.O_RDWR | os.O_NONBLOCK))  # releases the waiting readers


def test_a_hanging_secret_file_delays_no_other_target(server: Server, hung: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    other = Access(credentials=Secret(file=tmp_path / "secret"), tls=tls(server))

    async def get() -> tuple[str, bytes]:
        async with Fetcher() as fetcher:
            hanging = Access(credentials=Secret(file=hung))
            first = asyncio.create_task(fetcher.body("http://127.0.0.1:1/", hanging, limit=1000, seconds=HUNG_SECONDS))
            await asyncio.sleep(0)
            body = await fetcher.body(f"{server.url}/bearer", other, limit=1000, seconds=20)
            with pytest.raises(FetchFailed) as refused:
                await first
            return f"{refused.value.reason}: {refused.value}", body.data

    message, body = asyncio.run(get())
    assert body == b"a 1\n"
    assert message.startswith(f"credentials: {hung} cannot be read within ")


def test_a_cached_secret_is_used_while_its_file_hangs(
    server: Server, hung: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypergauge.collector.http.authentication._CREDENTIALS_SECONDS", 0.0)
    (tmp_path / "secret").write_text("hunter2")
    access = Access(credentials=Secret(file=tmp_path / "secret"), tls=tls(server))

    def hang() -> None:
        hung.rename(tmp_path / "secret")

    def come_back() -> None:
        (tmp_path / "secret").rename(hung)
        (tmp_path / "secret").write_text("hunter3")
        hung.write_text("hunter2")

    async def get() -> list[bytes]:
        async with Fetcher() as fetcher:
            bodies = []
            for number in range(4):
                bodies.append((await fetcher.body(f"{server.url}/echo", access, limit=1000, seconds=20)).data)
                if number == 0:
                    hang()
            come_back()
            while bodies[-1] != b"Bearer hunter3":
                bodies.append((await fetcher.body(f"{server.url}/echo", access, limit=1000, seconds=20)).data)
            return bodies

    assert set(asyncio.run(get())) == {b"Bearer hunter2", b"Bearer hunter3"}


@pytest.mark.parametrize("content", [None, "a\nb", "\udcff"])
def test_an_unusable_secret_fails_the_scrape_and_is_not_shown(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(FetchFailed) as refused:
        fetch("http://127.0.0.1:1/", Access(credentials=Secret(file=file)))
    assert refused.value.reason == "credentials"
    assert content is None or content not in str(refused.value)


def test_an_unknown_host_name() -> None:
    with pytest.raises(FetchFailed) as refused:
        fetch("http://nowhere.invalid:1/", Access())
    assert refused.value.reason in ("name", "timeout"), "a timeout if no DNS server answers"


def test_an_arrived_response_is_read_after_a_delay_of_the_loop() -> None:
    timeout = 2.0
    loops: list[asyncio.AbstractEventLoop] = []
    held = threading.Event()

    def hold() -> None:
        held.set()
        time.sleep(1.1 * timeout)

    def answer() -> bytes:
        loops[0].call_soon_threadsafe(hold)
        held.wait(HUNG_SECONDS)
        return b"a 1\n"

    async def held_up(address: str) -> bytes:
        loops.append(asyncio.get_running_loop())
        async with Fetcher() as fetcher:
            return (await fetcher.body(f"http://{address}/metrics", Access(), limit=100, seconds=timeout)).data

    with exporter(answer) as address:
        assert asyncio.run(held_up(address)) == b"a 1\n"


def test_a_missing_response_times_out() -> None:
    enough = threading.Event()

    def answer() -> bytes:
        enough.wait(HUNG_SECONDS)
        return b"a 1\n"

    with exporter(answer) as address:
        with pytest.raises(FetchFailed, match="no complete response"):
            fetch(f"http://{address}/metrics", Access(), timeout=0.05)
        enough.set()
