"""Server of an exporter, and the metrics that each exporter has about itself."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hypergauge.core.errors import ExporterUnavailable, ServiceFailed
from hypergauge.core.http.server import MetricsServer
from hypergauge.exporters.serving import child
from hypergauge.exporters.serving.registry import Exporter
from hypergauge.exporters.serving.text import render

__all__ = ["ExporterServer", "serve"]

_CLOSE_SECONDS = 5.0
# For as long a reading waits for the one before; the scrapers of a source that hangs would else gather a thread each time.
_BUSY_SECONDS = 10.0

_log = logging.getLogger(__name__)


class ExporterServer(MetricsServer):
    """Serves one exporter.

    Every request reads the source anew, one at a time. A source that cannot be read gives ``bench_exporter_up`` 0 and a
    counted error, never a failed request: the exporter itself still works.

    Parameters
    ----------
    exporter
        What is served.
    bind, port, web, insecure
        As of `MetricsServer`.

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
    ) -> None:
        self.exporter = exporter
        self._reading = _Reading(exporter)
        super().__init__(self._reading.text, bind, port, web=web, insecure=insecure)

    @property
    def unasked_seconds(self) -> float:
        """Seconds for which nobody has asked for the metrics."""
        return time.monotonic() - self._reading.asked_at

    def start(self) -> None:
        """Start to serve; a second call changes nothing.

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
        self._reading.open()
        try:
            super().start()
        except ServiceFailed as error:
            raise ServiceFailed(f"exporter {self.exporter.name!r} {error}") from error

    def stop(self) -> None:
        """Stop to serve, free the port and close the exporter; before a start and a second time this changes nothing."""
        if self._running:
            super().stop()
            self._reading.close()


def serve(
    exporter: Exporter, bind: str = "127.0.0.1", port: int = 0, *, web: Path | None = None, insecure: bool = False
) -> ExporterServer:
    """Start to serve `exporter`; see `ExporterServer` for the parameters and what is raised."""
    server = ExporterServer(exporter, bind, port, web=web, insecure=insecure)
    server.start()
    return server


class _Reading:
    """The exporter's families and its own: whether the last read worked, how long it took, what went wrong so far."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._lock = threading.Lock()
        self._errors: Counter[str] = Counter()
        self._up = True
        self._closed = False
        self.asked_at = time.monotonic()

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
            _log.warning("exporter %r is not closed: it still reads its source", self._exporter.name)
            return
        try:
            close()
        except Exception:  # noqa: BLE001 - whatever a source does, the exporter ends
            _log.warning("exporter %r cannot be closed", self._exporter.name, exc_info=True)
        finally:
            self._lock.release()

    def text(self) -> bytes:
        """Read the source once and return the body; where the reading before does not end, without the source's figures."""
        self.asked_at = time.monotonic()
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
        except Exception as error:  # noqa: BLE001 - whatever a source does, the exporter answers and counts it
            self._errors[type(error).__name__] += 1
            if self._up:  # once an outage: a scrape a second would fill the log
                _log.warning("exporter %r cannot read its source", self._exporter.name, exc_info=True)
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
            "bench_exporter_cpu_seconds_total", "CPU time that the exporter and what it runs have used.",
            labels=["exporter"],
        )  # fmt: skip
        used.add_metric([name], time.process_time() + child.cpu_seconds())
        return [could, read, errors, used]
