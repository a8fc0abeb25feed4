"""Server of an exporter, and the metrics that each exporter has about itself."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from pathlib import Path

from prometheus_client.core import Metric

from hypergauge.core.errors import ExporterUnavailable, ServiceFailed
from hypergauge.core.http.server import MetricsServer
from hypergauge.core.system.periodic import Periodic
from hypergauge.exporters.serving import child
from hypergauge.exporters.serving.families import Families
from hypergauge.exporters.serving.registry import Exporter
from hypergauge.exporters.serving.text import render

__all__ = ["ExporterServer"]

_CLOSE_SECONDS = 5.0
# Limit of a request's wait for the request before. Without it, a source that hangs would collect a thread per scrape.
_BUSY_SECONDS = 10.0
# An exporter that nobody scrapes for so long, and for three of the last intervals, closes its source: an idle tool costs too.
_REST_SECONDS = 5.0
_HELPS = {
    "bench_exporter_up": "Whether the source could be read.",
    "bench_exporter_read_seconds": "Duration of the last read.",
    "bench_exporter_errors_total": "Failed reads, by the kind of error.",
    "bench_exporter_cpu_seconds_total": "CPU time used by the exporter and its child processes.",
}

_log = logging.getLogger(__name__)


class ExporterServer(MetricsServer):
    """HTTP server of one exporter.

    Each request reads the source, one request at a time. Where the source cannot be read, the request succeeds with
    ``bench_exporter_up`` 0 and a counted error.

    Parameters
    ----------
    exporter
        The exporter to serve.
    bind, port, web, insecure
        As of `MetricsServer`.
    rest
        Seconds without a request after which the source may be closed; the next request opens it.

    Raises
    ------
    BadRequest
        As by `MetricsServer`.
    """

    def __init__(
        self,
        exporter: Exporter,
        bind: str = "127.0.0.1",
        port: int = 0,
        *,
        web: Path | None = None,
        insecure: bool = False,
        rest: float = _REST_SECONDS,
    ) -> None:
        self.exporter = exporter
        self._source = _Source(exporter, rest)
        super().__init__(self._source.exposition, bind, port, web=web, insecure=insecure)

    @property
    def unscraped_seconds(self) -> float:
        """Seconds since the last request."""
        return time.monotonic() - self._source.requested_at

    def start(self) -> None:
        """Start to serve; a second call has no effect.

        Raises
        ------
        ExporterUnavailable
            The exporter cannot work on this host.
        ServiceFailed
            The address cannot be listened on.
        """
        if self._running:
            return
        if reason := self.exporter.check():
            raise ExporterUnavailable(f"exporter {self.exporter.name!r} cannot work here: {reason}")
        self._source.open()
        try:
            super().start()
        except ServiceFailed as error:
            raise ServiceFailed(f"exporter {self.exporter.name!r} {error}") from error

    def stop(self) -> None:
        """Stop to serve, free the port and close the exporter; before a start and a second time this has no effect."""
        if self._running:
            super().stop()
            self._source.close()


class _Source:
    """An exporter's source, with the state of its last read: success, duration, errors so far."""

    def __init__(self, exporter: Exporter, rest: float) -> None:
        self._exporter, self._rest = exporter, rest
        self._looks: Periodic | None = None
        self._gap = 0.0  # seconds between the last two requests
        self._rests = True
        self._lock = threading.Lock()
        self._errors: Counter[str] = Counter()
        self._up = True
        self._closed = False
        self.requested_at = time.monotonic()

    def open(self) -> None:
        """Allow reads again after a close."""
        self._closed = False
        if hasattr(self._exporter, "close"):
            self._looks = Periodic("rest", self._look, self._rest).start()

    def close(self) -> None:
        """Stop reads, wait for the current one, and close the exporter if it can be closed."""
        self._closed = True  # before the lock is held: a request waiting for it must not open the source again
        if self._looks is not None:
            self._looks.end(timeout=0)
        self._close_exporter()

    def _look(self) -> None:
        """Close the exporter if nobody scrapes it."""
        if not self._rests and time.monotonic() - self.requested_at > max(self._rest, 3 * self._gap):
            self._close_exporter()

    def _close_exporter(self) -> None:
        close = getattr(self._exporter, "close", None)
        if close is None:
            return
        self._rests = True
        if not self._lock.acquire(timeout=_CLOSE_SECONDS):
            _log.warning("exporter %r is not closed: it still reads its source", self._exporter.name)
            return
        try:
            close()
        except Exception:  # noqa: BLE001 - the exporter ends whatever its source raises
            _log.warning("exporter %r cannot be closed", self._exporter.name, exc_info=True)
        finally:
            self._lock.release()

    def exposition(self) -> bytes:
        """Read the source once and return the response, without the source's metrics while an earlier read hangs."""
        now = time.monotonic()
        self._gap, self.requested_at, self._rests = now - self.requested_at, now, False
        began = time.perf_counter()
        if not self._lock.acquire(timeout=_BUSY_SECONDS):
            self._errors["busy"] += 1
            return render(self._own_families(time.perf_counter() - began, up=False))
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
        except Exception as error:  # noqa: BLE001 - the exporter answers and counts whatever its source raises
            self._errors[type(error).__name__] += 1
            if self._up:  # once an outage: a scrape a second would fill the log
                _log.warning("exporter %r cannot read its source", self._exporter.name, exc_info=True)
            self._up = False
            return []
        self._up = True
        return families

    def _own_families(self, seconds: float, *, up: bool) -> Families:
        own = {"exporter": self._exporter.name}
        families = Families(_HELPS)
        families.add("bench_exporter_up", own, float(up))
        families.add("bench_exporter_read_seconds", own, seconds)
        for reason, count in sorted(self._errors.items()):
            families.add("bench_exporter_errors_total", own | {"reason": reason}, count)
        families.add("bench_exporter_cpu_seconds_total", own, time.process_time() + child.cpu_seconds())
        return families
