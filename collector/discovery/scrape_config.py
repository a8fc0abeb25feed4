"""Scrape configuration of one job, with Prometheus's fields and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.collector.discovery.groups import Group
from hypergauge.collector.discovery.relabel import Rule
from hypergauge.collector.http.access import Access
from hypergauge.core.config.document import Document

__all__ = [
    "BODY_SIZE_LIMIT",
    "Announced",
    "Files",
    "Limits",
    "ScrapeConfig",
    "Scraping",
    "Service",
    "Web",
]

# Prometheus has none. Some 100,000 series fit.
BODY_SIZE_LIMIT = 16 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a scrape, beyond which it fails as a whole; 0 is no limit, and a body without one has our default."""

    body_size_limit: int = 0
    sample_limit: int = 0
    label_limit: int = 0
    label_name_length_limit: int = 0
    label_value_length_limit: int = 0


@dataclass(frozen=True, slots=True)
class Scraping:
    """Scrape options of a job's targets that relabeling cannot change."""

    honor_labels: bool = False
    honor_timestamps: bool = True
    access: Access = field(default_factory=Access)
    limits: Limits = Limits()
    metric_relabel: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """One of ``file_sd_configs``. `refresh_interval` is in seconds; a changed file is seen sooner."""

    patterns: tuple[str, ...]
    refresh_interval: float = 300.0


@dataclass(frozen=True, slots=True)
class Web:
    """One of ``http_sd_configs``."""

    url: str
    refresh_interval: float = 60.0
    access: Access = field(default_factory=Access)


@dataclass(frozen=True, slots=True)
class Announced:
    """One of ``announced_sd_configs``: the exporters that hosts have announced in our database."""

    refresh_interval: float = 5.0


# What is asked for targets again and again.
Service = Web | Announced


@dataclass(frozen=True, slots=True)
class ScrapeConfig:
    """One of ``scrape_configs``. Intervals and timeouts are in seconds.

    Attributes
    ----------
    timeout
        ``None`` for the default, which follows a target's interval.
    static
        The groups of ``static_configs``, in `document`.
    """

    job_name: str
    interval: float = 1.0
    timeout: float | None = None
    metrics_path: str = "/metrics"
    scheme: str = "http"
    params: tuple[tuple[str, tuple[str, ...]], ...] = ()
    scraping: Scraping = Scraping()
    relabel: tuple[Rule, ...] = ()
    static: tuple[Group, ...] = ()
    files: tuple[Files, ...] = ()
    services: tuple[Service, ...] = ()
    document: Document | None = field(default=None, compare=False, repr=False)
    folder: Path = Path()
