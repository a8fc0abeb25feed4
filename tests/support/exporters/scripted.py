"""Exporter that numbers its scrapes, and a collector on it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.home import COMMAND, listen_to_interrupts
from tests.support.waiting import HUNG_SECONDS, wait_for


class ScriptedExporter(ThreadingHTTPServer):
    """Exporter of gauges and a counter with the number of the scrape, from 1 on, as their value.

    A scraper sends its next request on a connection only after it has stored the previous response. So all responses of a
    connection except the last are stored.

    Parameters
    ----------
    width
        Gauges ``scripted_wide``.
    """

    daemon_threads = True

    def __init__(self, width: int = 5) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.width = width
        self.connections: list[list[int]] = []
        self.number = 0
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_port}"

    @property
    def gauges(self) -> int:
        """Number of series with a sample at each scrape."""
        return 1 + self.width

    @property
    def sure(self) -> set[int]:
        """Scrapes that the collector has certainly stored."""
        with self.lock:
            return {number for answered in self.connections for number in answered[:-1]}

    @property
    def answered(self) -> set[int]:
        """Scrapes with a sent response."""
        with self.lock:
            return {number for answered in self.connections for number in answered}

    def body(self, number: int) -> bytes:
        """Return the response to a scrape."""
        lines = [
            "# TYPE scripted_scrape gauge", f"scripted_scrape {number}",
            "# TYPE scripted_scrapes_total counter", f"scripted_scrapes_total {number}",
            "# TYPE scripted_wide gauge", *(f'scripted_wide{{n="{n}"}} {number}' for n in range(self.width)),
        ]  # fmt: skip
        return "\n".join([*lines, ""]).encode()

    def end(self) -> None:
        """Stop serving."""
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept
    server: ScriptedExporter

    def setup(self) -> None:
        super().setup()
        self.mine: list[int] = []
        with self.server.lock:
            self.server.connections.append(self.mine)

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:  # the scraper was killed
            self.close_connection = True

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.number += 1
            number = self.server.number
        body = self.server.body(number)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n\r\n"
        with self.server.lock:  # before sending: an unlogged response could not be checked
            self.mine.append(number)
        self.wfile.write(head.encode() + body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@dataclass
class Collector:
    """``bench collector run`` on one home, which can be restarted."""

    home: Path
    dsn: str
    addresses: list[str]
    interval: float = 0.1
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the collector."""
        self.home.mkdir(parents=True, exist_ok=True)
        targets = self.home / "targets.json"
        targets.write_text(json.dumps([{"targets": self.addresses, "labels": {"job": "scripted"}}]))
        others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
        self.port = _free_port()
        with (self.home / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                [*COMMAND, "collector", "run", "--targets", targets, "--interval", f"{self.interval:g}", "--port",
                 str(self.port)],
                stdout=output, stderr=output, env={**others, "BENCH_HOME": str(self.home), "BENCH_DSN": self.dsn},
                cwd=self.home, preexec_fn=listen_to_interrupts,
            )  # fmt: skip

    @property
    def output(self) -> str:
        """Whole output of the collector."""
        return (self.home / "output.txt").read_text()

    def kill(self) -> None:
        """Kill the collector."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, timeout: float = HUNG_SECONDS) -> None:
        """Stop the collector gracefully."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(timeout) == 0, self.output

    def end(self) -> None:
        """Stop the remaining processes."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def wait_for_scrapes(self, exporter: ScriptedExporter, more: int) -> None:
        """Wait until the collector has stored `more` scrapes than now."""
        enough = len(exporter.sure) + more
        wait_for(lambda: self.alive and len(exporter.sure) >= enough, f"{more} more scrapes")

    @property
    def alive(self) -> bool:
        """Return whether the collector is running; an unexpected end fails the test."""
        assert self._process is not None
        assert self._process.poll() is None, self.output
        return True

    def metrics(self) -> dict[str, float]:
        """Return the collector's own metrics, summed over all labels except a reason: ``name`` or ``name{reason}``."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=HUNG_SECONDS) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                reason = f"{{{sample.labels['reason']}}}" if "reason" in sample.labels else ""
                found[sample.name + reason] = found.get(sample.name + reason, 0.0) + sample.value
        return found


@contextmanager
def scripted(
    home: Path, dsn: str, *, width: int = 5, interval: float = 0.1
) -> Iterator[tuple[ScriptedExporter, Collector]]:
    """Yield an exporter, and a collector on it that is not started."""
    exporter = ScriptedExporter(width)
    collector = Collector(home, dsn, [exporter.address], interval)
    try:
        yield exporter, collector
    finally:
        collector.end()
        exporter.end()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
