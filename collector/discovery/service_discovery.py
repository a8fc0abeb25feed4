"""Service discovery: HTTP, and announcements in the database."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from hypergauge.collector.discovery.announced import labels, reachable
from hypergauge.collector.discovery.group_targets import read_groups
from hypergauge.collector.discovery.scrape_config import ScrapeConfig, Service, Web
from hypergauge.collector.discovery.targets import Key, Target, TargetRefused, populate
from hypergauge.collector.http.fetch import Fetcher, FetchFailed
from hypergauge.core.config.document import Document
from hypergauge.core.errors import BadRequest
from hypergauge.sql.ingest.announcements import Announcement

__all__ = ["AnnouncementSource", "discover"]

_log = logging.getLogger(__name__)

_WEB_LIMIT = 64 << 20
_WEB_SECONDS = 30.0

AnnouncementSource = Callable[[], Sequence[Announcement]]


async def discover(
    service: Service, config: ScrapeConfig, fetcher: Fetcher, announced: AnnouncementSource
) -> list[Target]:
    """Return the current targets of a job's service.

    Raises
    ------
    BenchError
        The service does not answer, or its answer is invalid.
    """
    if isinstance(service, Web):
        return await _of_web(service, config, fetcher)
    return _populated(config, map(labels, reachable(await asyncio.to_thread(announced))))


async def _of_web(web: Web, config: ScrapeConfig, fetcher: Fetcher) -> list[Target]:
    headers = {"X-Prometheus-Refresh-Interval-Seconds": f"{web.refresh_interval:g}"}
    try:
        with await fetcher.body(web.url, web.access, limit=_WEB_LIMIT, seconds=_WEB_SECONDS, headers=headers) as body:
            return await asyncio.to_thread(_of_json, config, web.url, body.data)
    except FetchFailed as error:
        raise BadRequest(str(error), file=web.url) from None


def _of_json(config: ScrapeConfig, url: str, data: bytes) -> list[Target]:
    try:
        json.loads(data)
        document = Document(url, data.decode())
    except (ValueError, RecursionError):
        raise BadRequest("does not answer with JSON", file=url) from None
    if document.content is None:
        return []
    return read_groups(config, document, {"__meta_url": url})[1]


def _populated(config: ScrapeConfig, found: Iterable[Mapping[str, str]]) -> list[Target]:
    """Return the targets of discovered labels, the first of equal ones; an invalid one does not affect the others."""
    targets: dict[Key, Target] = {}
    for discovered in found:
        try:
            target = populate(config, discovered)
        except TargetRefused as refused:
            _log.warning("job %r leaves %s out: %s", config.job_name, discovered["__address__"], refused)
            continue
        if target is not None:
            targets.setdefault(target.key, target)
    return list(targets.values())
