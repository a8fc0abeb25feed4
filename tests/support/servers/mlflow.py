"""Real MLflow server, and a proxy that can be stopped, slow, or require a login."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hypergauge.core.services import free_port
from tests.support.waiting import HUNG_SECONDS

_NOT_FORWARDED = {"connection", "transfer-encoding", "content-length", "date", "server"}


@contextlib.contextmanager
def mlflow_server(folder: Path) -> Iterator[int]:
    """Yield the port of a server with its data in `folder`."""
    port = free_port()
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [
                sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
                "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "artifacts"),
            ],
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"},
            stdout=log, stderr=log, cwd=folder, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + HUNG_SECONDS
        while not _answers(port):
            assert server.poll() is None, (folder / "server.log").read_text()
            assert time.monotonic() < deadline, (folder / "server.log").read_text()
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
            return True
    except OSError:
        return False


class Proxy:
    """Proxy of a server, on a port of its own.

    Attributes
    ----------
    delay
        Delay of each answer in seconds.
    gate
        Event; without it the proxy does not answer.
    login
        Required ``USER:PASSWORD``; ``None`` for any.
    """

    def __init__(self, port: int) -> None:
        self.behind, self.port = port, free_port()
        self.delay = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.login: str | None = None
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start listening; safe to call twice."""
        if self._server is None:
            self._server = _Server(self)
            threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Stop listening, so that connections are refused; safe to call twice."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(("127.0.0.1", proxy.port), _Handler)
        self.proxy = proxy


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(proxy.delay)
        proxy.gate.wait()
        if proxy.login is not None:
            expected = "Basic " + base64.b64encode(proxy.login.encode()).decode()
            if self.headers.get("Authorization") != expected:
                self.send_response(401)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        connection = http.client.HTTPConnection("127.0.0.1", proxy.behind, timeout=HUNG_SECONDS)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _NOT_FORWARDED:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass
