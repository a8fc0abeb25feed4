"""Metrics of the collector itself."""

from __future__ import annotations

import math
import time
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["CollectorMetrics"]


class Counted(Protocol):
    """Counters and gauges of the spool."""

    dropped_samples: int
    damaged: int

    @property
    def depth(self) -> int: ...

    @property
    def size(self) -> int: ...


class CollectorMetrics:
    """Metrics of scrapes, writes and the spool, with every drop by its reason."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.scrapes = Counter(
            "bench_collector_scrapes_total", "Scrapes by outcome.", ["outcome"], registry=self.registry
        )
        self.scrape_seconds = Histogram(
            "bench_collector_scrape_seconds", "Time of one scrape, from the request to the complete response.",
            registry=self.registry, buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )  # fmt: skip
        self.lag_seconds = Histogram(
            "bench_collector_scrape_lag_seconds", "Delay of scrapes behind their schedule.", registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
        )  # fmt: skip
        # Arrival of the oldest unparsed response, by the monotonic clock; infinite without any.
        self.unread_since = math.inf
        unread = Gauge(
            "bench_collector_unread_seconds",
            "Age of the oldest response that is not parsed yet.",
            registry=self.registry,
        )
        unread.set_function(lambda: self.unread_seconds)
        # Last report of target states to the database, by the monotonic clock.
        self.reported_at = time.monotonic()
        report_age = Gauge(
            "bench_collector_report_age_seconds", "Time since target states were last reported to the database.",
            registry=self.registry,
        )  # fmt: skip
        report_age.set_function(lambda: time.monotonic() - self.reported_at)
        self.targets = Gauge(
            "bench_collector_targets", "Targets by state: up, down, taken by another collector, or paused.", ["state"],
            registry=self.registry,
        )  # fmt: skip
        for state in ("up", "down", "taken", "paused"):
            self.targets.labels(state)
        self.discovery_errors = Counter(
            "bench_collector_discovery_errors_total", "Failed reads of target lists.",
            registry=self.registry,
        )  # fmt: skip
        self.scraped = Counter("bench_collector_scraped_samples_total", "Samples scraped.", registry=self.registry)
        self.retimed = Counter(
            "bench_collector_retimed_lines_total", "Lines with a timestamp in the future, replaced by the scrape's time.",
            registry=self.registry,
        )  # fmt: skip
        self.sample_rate = Gauge(
            "bench_collector_sample_rate_hertz", "Current samples per second of all targets.", registry=self.registry
        )
        self.missed = Counter(
            "bench_collector_missed_scrapes_total",
            "Scrapes that were skipped because the previous one was not done.",
            registry=self.registry,
        )
        self.dropped = Counter(
            "bench_collector_dropped_lines_total", "Lines dropped, by reason.", ["reason"], registry=self.registry
        )
        self.kind_conflicts = Counter(
            "bench_collector_kind_conflicts_total", "Targets that declare a metric of the catalog as another kind.", ["metric"],
            registry=self.registry,
        )  # fmt: skip
        self.samples = Counter("bench_collector_samples_total", "Samples written.", registry=self.registry)
        self.retagged = Counter(
            "bench_collector_retagged_samples_total", "Samples whose run set was changed.", registry=self.registry
        )
        self.replayed_batches = Counter(
            "bench_collector_replayed_batches_total",
            "Batches that the database already had, from before a restart or a failed write.",
            registry=self.registry,
        )
        self.write_errors = Counter(
            "bench_collector_write_errors_total", "Failed writes to the database.", registry=self.registry
        )
        self.lock_waits = Counter(
            "bench_collector_lock_waits_total", "Sessions of the database that waited for a lock for some seconds.",
            registry=self.registry,
        )  # fmt: skip
        self.write_seconds = Histogram(
            "bench_collector_write_seconds", "Time of one write transaction.", registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )  # fmt: skip
        self.series = Gauge("bench_collector_series", "Series of all targets.", registry=self.registry)
        self.spool_records = Gauge(
            "bench_collector_spool_records", "Records of the spool that are not written yet.", registry=self.registry
        )
        self.spool_bytes = Gauge("bench_collector_spool_bytes", "Size of the spool.", registry=self.registry)
        self.lost = Counter(
            "bench_collector_lost_samples_total", "Scraped samples that the spool dropped.", registry=self.registry
        )
        self.damaged = Counter(
            "bench_collector_damaged_records_total", "Damaged records of the spool.", registry=self.registry
        )
        self._counted = (0, 0)

    @property
    def unread_seconds(self) -> float:
        """Age of the oldest response that is not parsed yet, in seconds; thread-safe."""
        return max(time.monotonic() - self.unread_since, 0.0)

    def count_spool(self, spool: Counted) -> None:
        """Add the drops of `spool` since the last call, and set its gauges."""
        now = (spool.dropped_samples, spool.damaged)
        self.lost.inc(now[0] - self._counted[0])
        self.damaged.inc(now[1] - self._counted[1])
        self._counted = now
        self.spool_records.set(spool.depth)
        self.spool_bytes.set(spool.size)
