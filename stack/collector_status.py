"""Status of a running collector, from its own metrics."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hypergauge.core.listing import counted
from hypergauge.dashboards.terminal import formatting

__all__ = ["CollectorStatus"]

# Age of a collector's report above which the user sees it; collectors report every second.
_REPORT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class CollectorStatus:
    """Status of a collector.

    Attributes
    ----------
    targets
        Number of targets by state: ``up``, ``down``, and ``taken`` by another collector.
    samples_per_second, series
        Sample rate and number of series of all targets.
    scrape_seconds, lag_seconds
        Mean duration and mean delay of scrapes, since the collector started.
    spool_records, spool_bytes
        Content of the spool: scraped and not yet written.
    dropped, failed
        Number of dropped lines and failed scrapes, by reason.
    conflicts
        Metrics of the catalog that targets declare as another kind, with the number of those targets.
    retried
        Number of retried batches that the database already had.
    report_seconds
        Age of the last report about targets in the database.
    """

    targets: dict[str, int]
    samples_per_second: float
    series: int
    scrape_seconds: float | None
    lag_seconds: float | None
    spool_records: int
    spool_bytes: int
    dropped: dict[str, int]
    failed: dict[str, int]
    conflicts: dict[str, int]
    retried: int
    report_seconds: float

    @classmethod
    def read(cls, url: str, timeout: float = 2.0) -> CollectorStatus | None:
        """Read the metrics of the collector at `url`; ``None`` without a valid response."""
        try:
            with urllib.request.urlopen(url, timeout=timeout) as response:  # noqa: S310 - our own address
                return cls.parse(response.read().decode())
        except (urllib.error.URLError, OSError, ValueError):
            return None

    @classmethod
    def parse(cls, exposition: str) -> CollectorStatus:
        """Parse an exposition."""
        plain: dict[str, float] = {}
        labeled: dict[str, dict[str, int]] = {}
        for family in text_string_to_metric_families(exposition):
            for sample in family.samples:
                name = sample.name.removeprefix("bench_collector_")
                if len(sample.labels) == 1 and "le" not in sample.labels:
                    [value] = sample.labels.values()
                    labeled.setdefault(name, {})[value] = int(sample.value)
                elif not sample.labels:
                    plain[name] = sample.value
        return cls(
            targets=labeled.get("targets", {}),
            samples_per_second=plain.get("sample_rate_hertz", 0.0),
            series=int(plain.get("series", 0)),
            scrape_seconds=_mean(plain, "scrape_seconds"),
            lag_seconds=_mean(plain, "scrape_lag_seconds"),
            spool_records=int(plain.get("spool_records", 0)),
            spool_bytes=int(plain.get("spool_bytes", 0)),
            dropped={reason: count for reason, count in labeled.get("dropped_lines_total", {}).items() if count},
            failed={
                reason: count for reason, count in labeled.get("scrapes_total", {}).items() if count and reason != "ok"
            },
            conflicts=labeled.get("kind_conflicts_total", {}),
            retried=int(plain.get("replayed_batches_total", 0)),
            report_seconds=plain.get("report_age_seconds", 0.0),
        )

    def line(self) -> str:
        """Return a summary in one line."""
        parts = [
            f"{self.samples_per_second:.0f} samples/s of {self.series} series",
            " ".join(f"{count} {state}" for state, count in self.targets.items() if count) or "no targets",
        ]
        if self.scrape_seconds is not None:
            parts.append(f"scrapes take {_milliseconds(self.scrape_seconds)}")
        if self.lag_seconds is not None:
            parts.append(f"begin {_milliseconds(self.lag_seconds)} late")
        parts.append(
            f"spool {counted(self.spool_records, 'record')}, {formatting.value_text('_bytes', self.spool_bytes)}"
        )
        parts += [
            f"{counted(sum(found.values()), noun)} {what} ({_reasons(found)})"
            for noun, what, found in self._problems()
            if found
        ]
        if self.conflicts:
            parts.append(f"declared as another kind than in the catalog: {', '.join(sorted(self.conflicts))}")
        parts += [f"{self.retried} {'batch' if self.retried == 1 else 'batches'} found written"] if self.retried else []
        if self.report_seconds > _REPORT_SECONDS:
            parts.append(f"last report to the database {formatting.duration(self.report_seconds)} ago")
        return "; ".join(parts)

    def _problems(self) -> list[tuple[str, str, dict[str, Any]]]:
        return [("scrape", "failed", self.failed), ("line", "dropped", self.dropped)]


def _mean(metrics: dict[str, float], name: str) -> float | None:
    count = metrics.get(f"{name}_count", 0.0)
    return metrics[f"{name}_sum"] / count if count else None


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _reasons(found: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(found.items(), key=lambda pair: -pair[1]))
