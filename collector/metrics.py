"""Metrics of the collector itself."""

from __future__ import annotations

import math
import time
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["CollectorMetrics"]


class Counted(Protocol):
    """Spool, as far as it is counted here."""

    dropped_samples: int
    damaged: int

    @property
    def depth(self) -> int: ...

    @property
    def size(self) -> int: ...


class CollectorMetrics:
    """Counts what went through, and every drop with its reason."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.scrapes = Counter(
            "bench_collector_scrapes_total", "Scrapes by how they ended.", ["outcome"], registry=self.registry
        )
        self.scrape_seconds = Histogram(
            "bench_collector_scrape_seconds", "Time of one scrape, from the request to the whole answer.",
            registry=self.registry, buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )  # fmt: skip
        self.lag_seconds = Histogram(
            "bench_collector_scrape_lag_seconds", "How late scrapes began.", registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
        )  # fmt: skip
        # When the oldest answer that is not yet read was asked for, by the monotonic clock; infinite where all are read.
        self.unread_since = math.inf
        unread = Gauge(
            "bench_collector_unread_seconds", "Age of the oldest answer that is to be read.", registry=self.registry
        )
        unread.set_function(lambda: self.unread_seconds)
        # When the database was last told how targets are, by the monotonic clock.
        self.reported_at = time.monotonic()
        report_age = Gauge(
            "bench_collector_report_age_seconds", "Time since the database was told how targets are.",
            registry=self.registry,
        )  # fmt: skip
        report_age.set_function(lambda: time.monotonic() - self.reported_at)
        self.targets = Gauge(
            "bench_collector_targets", "Targets that are up, down, or taken: another collector's.", ["state"],
            registry=self.registry,
        )  # fmt: skip
        for state in ("up", "down", "taken"):
            self.targets.labels(state)
        self.discovery_errors = Counter(
            "bench_collector_discovery_errors_total", "Times a list of targets could not be read.",
            registry=self.registry,
        )  # fmt: skip
        self.scraped = Counter("bench_collector_scraped_samples_total", "Lines scraped.", registry=self.registry)
        self.retimed = Counter(
            "bench_collector_retimed_lines_total", "Lines whose own time lay ahead, and that got their scrape's.",
            registry=self.registry,
        )  # fmt: skip
        self.sample_rate = Gauge(
            "bench_collector_sample_rate_hertz", "Samples a second that targets show by now.", registry=self.registry
        )
        self.missed = Counter(
            "bench_collector_missed_scrapes_total", "Scrapes whose time passed unused.", registry=self.registry
        )
        self.dropped = Counter(
            "bench_collector_dropped_lines_total", "Lines that gave no sample.", ["reason"], registry=self.registry
        )
        self.samples = Counter("bench_collector_samples_total", "Samples written.", registry=self.registry)
        self.retagged = Counter(
            "bench_collector_retagged_samples_total", "Samples that got another tag.", registry=self.registry
        )
        self.replayed_batches = Counter(
            "bench_collector_replayed_batches_total",
            "Batches of an earlier life or a failed write that were there.",
            registry=self.registry,
        )
        self.write_errors = Counter(
            "bench_collector_write_errors_total", "Times the database failed.", registry=self.registry
        )
        self.write_seconds = Histogram(
            "bench_collector_write_seconds", "Time of one transaction.", registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )  # fmt: skip
        self.series = Gauge("bench_collector_series", "Series that targets show.", registry=self.registry)
        self.spool_records = Gauge("bench_collector_spool_records", "Records to be written.", registry=self.registry)
        self.spool_bytes = Gauge("bench_collector_spool_bytes", "Size of the spool.", registry=self.registry)
        self.lost = Counter(
            "bench_collector_lost_samples_total", "Scraped samples that the spool gave up.", registry=self.registry
        )
        self.damaged = Counter(
            "bench_collector_damaged_records_total", "Records of the spool that were not whole.", registry=self.registry
        )
        self._counted = (0, 0)

    @property
    def unread_seconds(self) -> float:
        """Age of the oldest response that is not parsed yet, in seconds; in any thread."""
        return max(time.monotonic() - self.unread_since, 0.0)

    def count_spool(self, spool: Counted) -> None:
        """Take over what `spool` has counted since the last time."""
        now = (spool.dropped_samples, spool.damaged)
        self.lost.inc(now[0] - self._counted[0])
        self.damaged.inc(now[1] - self._counted[1])
        self._counted = now
        self.spool_records.set(spool.depth)
        self.spool_bytes.set(spool.size)
