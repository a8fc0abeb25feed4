"""HTTP server of metrics, for exporters, the collector and the rule engine."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from types import TracebackType
from typing import Any, Self

from hypergauge.core.errors import BadRequest, ServiceFailed
from hypergauge.core.http.authentication import Authentication
from hypergauge.core.http.config import WebConfig

__all__ = ["MetricsServer", "require_closed"]

_HANDSHAKE_SECONDS = 10.0
# In Go's words, which its clients may know.
_NOT_TLS = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"Client sent an HTTP request to an HTTPS server.\n"
)
_FAREWELL_SECONDS = 1.0

_log = logging.getLogger(__name__)


def require_closed(bind: str, web: Path | None = None, *, insecure: bool = False) -> None:
    """Refuse an address that other hosts can reach, unless `web` asks for TLS and for who is there.

    Raises
    ------
    BadRequest
        `bind` is no loopback address, and neither that file nor `insecure` allows it; or the file has an error.
    """
    config = WebConfig.read(web) if web is not None else WebConfig()
    try:
        loopback = ipaddress.ip_address(bind).is_loopback
    except ValueError:
        loopback = bind == "localhost"
    if not (loopback or insecure) and (missing := config.missing):
        there_is = "there is neither TLS nor authentication" if len(missing) > 1 else f"there is no {missing[0]}"
        where = "" if web is None else f" in {web}"
        raise BadRequest(
            f"{bind!r} may be reached from other hosts, and {there_is}{where}: bind to 127.0.0.1, give a --web-config "
            "with both (`bench doctor --tls` makes one), or say --insecure"
        )


class MetricsServer:
    """Serves Prometheus text over HTTP or HTTPS, in threads of its own, whatever path is asked for.

    Parameters
    ----------
    body
        What gives the text; asked in many threads at once.
    bind
        Address to listen on.
    port
        0 for one that is free, see `port` after the start.
    web
        A ``web.yml``, for TLS and logins; followed as it and its files change.
    insecure
        Whether an address that other hosts can reach is wanted without them.

    Raises
    ------
    BadRequest
        As `require_closed`; or a certificate or key cannot be used.
    """

    def __init__(
        self,
        body: Callable[[], bytes],
        bind: str = "127.0.0.1",
        port: int = 0,
        *,
        web: Path | None = None,
        insecure: bool = False,
    ) -> None:
        require_closed(bind, web, insecure=insecure)
        self.bind = bind
        self._body, self._port, self._authentication = body, port, Authentication(web)
        self._running: tuple[_Server, threading.Thread] | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._running[0].server_address[1]) if self._running else self._port

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self.bind}]" if ":" in self.bind else self.bind
        return f"{'http' if self._authentication.context() is None else 'https'}://{host}:{self.port}/metrics"

    def start(self) -> None:
        """Start to serve; a second call changes nothing.

        Raises
        ------
        ServiceFailed
            The address cannot be listened on.
        """
        if self._running:
            return
        try:
            server = _Server(self.bind, self._port, self._body, self._authentication)
        except OSError as error:
            raise ServiceFailed(f"cannot listen on {self.bind} port {self._port}: {error.strerror}") from error
        thread = threading.Thread(target=server.serve_forever, name=f"port {server.server_address[1]}", daemon=True)
        thread.start()
        self._running = server, thread

    def stop(self) -> None:
        """Stop to serve, and free the port; before a start and a second time this changes nothing."""
        if self._running:
            server, thread = self._running
            self._running = None
            server.shutdown()
            server.server_close()
            thread.join()
            server.hang_up()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


class _Server(ThreadingTCPServer):
    """A thread a connection, which its scraper keeps open."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128  # scrapers that come back at once, when their network does

    def __init__(self, bind: str, port: int, body: Callable[[], bytes], authentication: Authentication) -> None:
        self.body, self.authentication = body, authentication
        self._connections: set[socket.socket] = set()
        self.address_family = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0][0]
        super().__init__((bind, port), _Answer)

    def hang_up(self) -> None:
        """End the connections that are open."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # has just ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Pass over a scraper that has gone, or that TLS did not let in; what else goes wrong is logged."""
        if not isinstance(sys.exception(), OSError):
            _log.exception("a request from %s failed", client_address)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if (context := self.authentication.context()) is None:
            return connection, address
        # Whoever says nothing costs a thread for a while, and not the one that all others wait for.
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)


class _Answer(BaseHTTPRequestHandler):
    """Answers in text format 0.0.4 whatever is asked for: the form that every exporter's users may rely on."""

    protocol_version = "HTTP/1.1"  # a connection for all scrapes: a new one costs as much as the scrape
    timeout = 90  # more than a minute, the longest interval that a collector has
    wbufsize = -1  # head and body leave in one packet
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self._shake_hands(self.request)
        super().setup()

    def _shake_hands(self, connection: ssl.SSLSocket) -> None:
        connection.settimeout(_HANDSHAKE_SECONDS)
        try:
            connection.do_handshake()
        except ssl.SSLError as error:
            _bid_farewell(connection, _NOT_TLS if error.reason == "HTTP_REQUEST" else b"")
            raise

    def finish(self) -> None:
        super().finish()
        if isinstance(self.request, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                self.request.settimeout(0)  # said, without waiting for an answer
                self.request.unwrap()  # else some clients take the end for a broken connection

    def do_GET(self) -> None:
        authentication = self.server.authentication
        if isinstance(self.request, ssl.SSLSocket) and not authentication.admits(self.request.getpeercert()):
            self._send(403, b"The certificate is for nobody who may connect.\n")
        elif not authentication.knows(self.headers.get("Authorization")):
            self._send(401, b"Unauthorized\n", **{"WWW-Authenticate": 'Basic realm="metrics"'})
        else:
            self._send(200, self.server.body())

    do_HEAD = do_GET  # noqa: N815

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: a line a second would be the log."""


def _bid_farewell(connection: ssl.SSLSocket, words: bytes) -> None:
    """Say something below TLS, and wait until the other side has read it, and what TLS told it: a reset would undo both."""
    raw = socket.socket
    with contextlib.suppress(OSError):
        raw.settimeout(connection, _FAREWELL_SECONDS)
        raw.sendall(connection, words)
        raw.shutdown(connection, socket.SHUT_WR)
        until = time.monotonic() + _FAREWELL_SECONDS
        while time.monotonic() < until and raw.recv(connection, 65536):
            pass
