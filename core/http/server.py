"""HTTP server of metrics, for exporters, the collector and the rule engine."""

from __future__ import annotations

import contextlib
import errno
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
from hypergauge.core.pages import Page

__all__ = ["MetricsServer", "require_closed"]

_HANDSHAKE_SECONDS = 10.0
# Go's text, which some clients check.
_NOT_TLS = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"Client sent an HTTP request to an HTTPS server.\n"
)
_FAREWELL_SECONDS = 1.0

_log = logging.getLogger(__name__)


def require_closed(bind: str, web: Path | None = None, *, insecure: bool = False) -> None:
    """Refuse an address that other hosts can reach, unless `web` requires TLS and authentication.

    Raises
    ------
    BadRequest
        `bind` is not a loopback address, and neither that file nor `insecure` allows it; or the file has an error.
    """
    config = WebConfig()
    if web is not None:
        from hypergauge.core.http.web_file import read_web_config  # most servers have none, and pydantic takes memory

        config = read_web_config(web)
    try:
        loopback = ipaddress.ip_address(bind).is_loopback
    except ValueError:
        loopback = bind == "localhost"
    if not (loopback or insecure) and (missing := config.missing):
        there_is = "there is neither TLS nor authentication" if len(missing) > 1 else f"there is no {missing[0]}"
        where = "" if web is None else f" in {web}"
        raise BadRequest(
            f"{bind!r} may be reached from other hosts, and {there_is}{where}: bind to 127.0.0.1, give a --web-config "
            "with both, or allow it by --insecure",
            page=Page.TLS,
        )


class MetricsServer:
    """Server of Prometheus text over HTTP or HTTPS, in its own threads, under any path.

    Parameters
    ----------
    body
        Returns the text; called from many threads at once.
    bind
        Address to listen on.
    port
        0 for a free port, see `port` after the start.
    web
        A ``web.yml``, for TLS and logins; changes of its files apply at once.
    insecure
        Allow an address that other hosts can reach without TLS and logins.

    Raises
    ------
    BadRequest
        As in `require_closed`; or a certificate or key is unusable.
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
        """The server's port."""
        return int(self._running[0].server_address[1]) if self._running else self._port

    @property
    def url(self) -> str:
        """URL of the metrics."""
        host = f"[{self.bind}]" if ":" in self.bind else self.bind
        return f"{'http' if self._authentication.context() is None else 'https'}://{host}:{self.port}/metrics"

    def start(self) -> None:
        """Start the server; safe to call twice.

        Raises
        ------
        ServiceFailed
            The address is unusable.
        """
        if self._running:
            return
        try:
            server = _Server(self.bind, self._port, self._body, self._authentication)
        except OSError as error:
            remedy = "; another program has the port: choose another --port" * (error.errno == errno.EADDRINUSE)
            raise ServiceFailed(f"cannot listen on {self.bind} port {self._port}: {error.strerror}{remedy}") from error
        thread = threading.Thread(target=server.serve_forever, name=f"port {server.server_address[1]}", daemon=True)
        thread.start()
        self._running = server, thread

    def stop(self) -> None:
        """Stop the server and free the port; safe to call twice, and before a start."""
        if self._running:
            server, thread = self._running
            self._running = None
            server.wake()
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
    """Server with a thread per connection; scrapers keep connections open."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128  # after a network outage, all scrapers return at once

    def __init__(self, bind: str, port: int, body: Callable[[], bytes], authentication: Authentication) -> None:
        self.body, self.authentication = body, authentication
        self._connections: set[socket.socket] = set()
        self.address_family = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0][0]
        super().__init__((bind, port), _Answer)

    def wake(self) -> None:
        """End the wait for a connection, which `shutdown` would otherwise wait for: up to half a second."""
        with contextlib.suppress(OSError):  # other systems than Linux wait
            self.socket.shutdown(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Close the open connections."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Ignore broken connections and failed handshakes; log other errors."""
        if not isinstance(sys.exception(), OSError):
            _log.exception("a request from %s failed", client_address)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if (context := self.authentication.context()) is None:
            return connection, address
        # A silent client must block only its own thread.
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)


class _Answer(BaseHTTPRequestHandler):
    """Handler that responds in text format 0.0.4 to every request."""

    protocol_version = "HTTP/1.1"  # keeps connections open: a new one costs as much as a scrape
    timeout = 90  # longer than a minute, the collector's longest interval
    wbufsize = -1  # head and body in one packet
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
            _end_plainly(connection, _NOT_TLS if error.reason == "HTTP_REQUEST" else b"")
            raise

    def finish(self) -> None:
        super().finish()
        if isinstance(self.request, ssl.SSLSocket):
            with contextlib.suppress(OSError, ValueError):  # `hang_up` may have ended TLS
                self.request.settimeout(0)  # sends the closing alert without waiting for the client's
                self.request.unwrap()  # else some clients see a broken connection

    def do_GET(self) -> None:
        authentication = self.server.authentication
        if isinstance(self.request, ssl.SSLSocket) and not authentication.admits(self.request.getpeercert()):
            self._send(403, b"The certificate has none of the allowed names.\n")
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
        """Log no requests: there is one per second."""


def _end_plainly(connection: ssl.SSLSocket, message: bytes) -> None:
    """Send a message below TLS, and wait until the client has read it and the alert. A reset would discard both."""
    raw = socket.socket
    with contextlib.suppress(OSError):
        raw.settimeout(connection, _FAREWELL_SECONDS)
        raw.sendall(connection, message)
        raw.shutdown(connection, socket.SHUT_WR)
        until = time.monotonic() + _FAREWELL_SECONDS
        while time.monotonic() < until and raw.recv(connection, 65536):
            pass
