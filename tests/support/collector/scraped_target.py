"""Scraped target, and the samples of its responses."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from hypergauge.collector.convert.definitions import Definitions
from hypergauge.collector.discovery.scrape_config import Scraping
from hypergauge.collector.discovery.targets import Target
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.scrape.scraped_target import ScrapedTarget
from hypergauge.sql.ingest.catalog import Kind


def target(labels: dict[str, str] | None = None, **scraping: Any) -> Target:
    return Target("http://n1:1/metrics", "n1", "node", "n1:1", labels or {}, 1.0, scraping=Scraping(**scraping))


class Scraped:
    """Scraped target, and its samples."""

    def __init__(
        self, target: Target, began: float = 0.0, kinds: Mapping[str, Kind] | None = None, target_id: int = 7
    ) -> None:
        self.metrics = CollectorMetrics()
        self.scraped = ScrapedTarget(target, target_id, Definitions(kinds), self.metrics, began)
        self.clock = itertools.count(1000)

    def take(
        self, exposition: str, at: float | None = None, lead: float | None = None
    ) -> dict[str, tuple[float, float]]:
        """Return time and value by the name of the series in the database."""
        at = next(self.clock) if at is None else at
        scrape = self.scraped.parse(exposition.encode())
        record = self.scraped.take(scrape, at, at, at, lead)
        if record is None:
            return {}
        names = [self.name(record.series[ref]) for ref in record.refs.tolist()]
        assert len(set(names)) == len(names), "no series is twice in a scrape"
        return dict(zip(names, zip(record.times.tolist(), record.values.tolist(), strict=True), strict=True))

    @staticmethod
    def name(definition: Any) -> str:
        labels = ",".join(f"{name}={value}" for name, value in sorted(definition.labels.items()))
        return f"{definition.metric}{{{labels}}}"

    def dropped(self, reason: str) -> float:
        return value(self.metrics.registry, "bench_collector_dropped_lines_total", reason=reason)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0
