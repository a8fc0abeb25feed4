"""Scrape configuration of one job, with Prometheus's fields and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hypergauge.collector.discovery.relabel import Rule
from hypergauge.collector.http.access import Access
from hypergauge.core.config.document import Document

if TYPE_CHECKING:
    from hypergauge.collector.discovery.groups import Group

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

# Prometheus has no default. Some 100,000 series fit.
BODY_SIZE_LIMIT = 16 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a scrape, which fails as a whole beyond them. 0 is no limit; for the body size it is our default."""

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
    """Entry of ``file_sd_configs``. `refresh_interval` is in seconds; changes are noticed sooner."""

    patterns: tuple[str, ...]
    refresh_interval: float = 300.0


@dataclass(frozen=True, slots=True)
class Web:
    """Entry of ``http_sd_configs``."""

    url: str
    refresh_interval: float = 60.0
    access: Access = field(default_factory=Access)


@dataclass(frozen=True, slots=True)
class Announced:
    """Entry of ``announced_sd_configs``: the announced exporters in the database."""

    refresh_interval: float = 5.0


# Services that the collector queries periodically.
Service = Web | Announced


@dataclass(frozen=True, slots=True)
class ScrapeConfig:
    """Entry of ``scrape_configs``. Intervals and timeouts are in seconds.

    Attributes
    ----------
    timeout
        ``None`` for the default, which depends on a target's interval.
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
