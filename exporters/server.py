"""The HTTP server that all listeners share, and what each of them says about itself."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from types import TracebackType
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from bench.addresses import require_loopback
from bench.errors import ExporterUnavailable, ServiceFailed
from exporters import child
from exporters.registry import Exporter
from exporters.text import render

__all__ = ["ExporterServer", "serve"]

_CLOSE_SECONDS = 5.0
# For as long a reading waits for the one before; the scrapers of a source that hangs would else gather a thread each time.
_BUSY_SECONDS = 10.0

_log = logging.getLogger(__name__)


class ExporterServer:
    """Serves one listener as Prometheus text over HTTP, in threads of its own.

    Every request reads the source anew, one at a time. A source that cannot be read gives ``bench_exporter_up`` 0 and a
    counted error, never a failed request: the listener itself still works.

    Parameters
    ----------
    exporter
        What is served.
    bind
        Address to listen on. Whoever reaches it can read: there is neither TLS nor authentication.
    port
        0 for one that is free, see `port` after the start.
    insecure
        Whether an address that other hosts can reach is wanted.

    Raises
    ------
    BadRequest
        `bind` can be reached from elsewhere and `insecure` is not set.
    """

    def __init__(self, exporter: Exporter, bind: str = "127.0.0.1", port: int = 0, *, insecure: bool = False) -> None:
        require_loopback(bind, insecure=insecure)
        self.exporter, self.bind = exporter, bind
        self._port = port
        self._running: tuple[_Server, threading.Thread] | None = None
        self._reading = _Reading(exporter)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._running[0].server_address[1]) if self._running else self._port

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self.bind}]" if ":" in self.bind else self.bind
        return f"http://{host}:{self.port}/metrics"

    def start(self) -> None:
        """Start to serve; a second call changes nothing.

        Raises
        ------
        ExporterUnavailable
            The listener cannot work on this host.
        ServiceFailed
            The address cannot be listened on.
        """
        if self._running:
            return
        if reason := self.exporter.check():
            raise ExporterUnavailable(f"listener {self.exporter.name!r} cannot work here: {reason}")
        try:
            server = _Server(self.bind, self._port, self._reading)
        except OSError as error:
            where = f"{self.bind} port {self._port}"
            raise ServiceFailed(
                f"listener {self.exporter.name!r} cannot listen on {where}: {error.strerror}"
            ) from error
        self._reading.open()
        thread = threading.Thread(target=server.serve_forever, name=f"listener {self.exporter.name}", daemon=True)
        thread.start()
        self._running = server, thread

    def stop(self) -> None:
        """Stop to serve, free the port and close the exporter; before a start and a second time this changes nothing."""
        if self._running:
            server, thread = self._running
            self._running = None
            server.shutdown()
            server.server_close()
            thread.join()
            server.hang_up()
            self._reading.close()

    def __enter__(self) -> ExporterServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def serve(exporter: Exporter, bind: str = "127.0.0.1", port: int = 0, *, insecure: bool = False) -> ExporterServer:
    """Start to serve `exporter`; see `ExporterServer` for the parameters and what is raised."""
    server = ExporterServer(exporter, bind, port, insecure=insecure)
    server.start()
    return server


class _Reading:
    """The listener's families and its own: whether the last read worked, how long it took, what went wrong so far."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._lock = threading.Lock()
        self._errors: Counter[str] = Counter()
        self._up = True
        self._closed = False

    def open(self) -> None:
        """Read again, after a close."""
        self._closed = False

    def close(self) -> None:
        """Read no more, and close the exporter where it can be closed; a reading that is under way is waited for."""
        self._closed = True  # before the lock is had: whoever waits for it is not to open the source again
        close = getattr(self._exporter, "close", None)
        if close is None:
            return
        if not self._lock.acquire(timeout=_CLOSE_SECONDS):
            _log.warning("listener %r is not closed: it still reads its source", self._exporter.name)
            return
        try:
            close()
        except Exception:  # noqa: BLE001 - whatever a source does, the listener ends
            _log.warning("listener %r cannot be closed", self._exporter.name, exc_info=True)
        finally:
            self._lock.release()

    def text(self) -> bytes:
        """Read the source once and return the body; where the reading before does not end, without the source's figures."""
        asked = time.perf_counter()
        if not self._lock.acquire(timeout=_BUSY_SECONDS):
            self._errors["busy"] += 1
            return render(self._own_families(time.perf_counter() - asked, up=False))
        try:
            started = time.perf_counter()
            families = [] if self._closed else self._read()
            own = self._own_families(time.perf_counter() - started, up=self._up)
        finally:
            self._lock.release()
        return render([*families, *own])

    def _read(self) -> list[Metric]:
        try:
            families = list(self._exporter.collect())
        except Exception as error:  # noqa: BLE001 - whatever a source does, the listener answers and counts it
            self._errors[type(error).__name__] += 1
            if self._up:  # once an outage: a scrape a second would fill the log
                _log.warning("listener %r cannot read its source", self._exporter.name, exc_info=True)
            self._up = False
            return []
        self._up = True
        return families

    def _own_families(self, seconds: float, *, up: bool) -> list[Metric]:
        name = self._exporter.name
        could = GaugeMetricFamily("bench_exporter_up", "Whether the source could be read.", labels=["exporter"])
        could.add_metric([name], float(up))
        read = GaugeMetricFamily("bench_exporter_read_seconds", "Time that the last read took.", labels=["exporter"])
        read.add_metric([name], seconds)
        errors = CounterMetricFamily(
            "bench_exporter_errors_total", "Reads that failed, by the kind of error.", labels=["exporter", "reason"]
        )
        for reason, count in sorted(self._errors.items()):
            errors.add_metric([name, reason], count)
        used = CounterMetricFamily(
            "bench_exporter_cpu_seconds_total", "CPU time that the listener and what it runs have used.",
            labels=["exporter"],
        )  # fmt: skip
        used.add_metric([name], time.process_time() + child.cpu_seconds())
        return [could, read, errors, used]


class _Server(ThreadingTCPServer):
    """Serves one listener; a thread a connection, which its scraper keeps open."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, bind: str, port: int, reading: _Reading) -> None:
        self.reading = reading
        self._connections: set[socket.socket] = set()
        self.address_family = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0][0]
        super().__init__((bind, port), _Answer)

    def hang_up(self) -> None:
        """End the connections that are open."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # has just ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Pass over a scraper that has gone; what else goes wrong is logged."""
        if not isinstance(sys.exception(), OSError):
            _log.exception("a request from %s failed", client_address)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)


class _Answer(BaseHTTPRequestHandler):
    """Answers in text format 0.0.4 whatever is asked for: the form that every listener's users may rely on."""

    protocol_version = "HTTP/1.1"  # a connection for all scrapes: a new one costs as much as the scrape
    timeout = 90  # more than a minute, the longest interval that a collector has
    wbufsize = -1  # head and body leave in one packet
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        body = self.server.reading.text()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: a line a second would be the log."""
