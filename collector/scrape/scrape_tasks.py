"""Tasks of one scraped target: one sends requests on schedule, the other parses responses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from hypergauge.collector.http.fetch import Body
from hypergauge.collector.scrape.scraped_target import ScrapedTarget

__all__ = ["ParseQueue", "ScrapeResponse", "ScrapeTasks", "ended", "forget"]

# Limit on the unparsed responses of a target, which bounds the memory. While other programs keep the cores busy, parsing
# falls behind for seconds, and no scrape is missed.
UNPARSED = 10


@dataclass(frozen=True, slots=True, eq=False)
class ScrapeResponse:
    """Response of a target, or the reason for none: one word and one line. `lead` is the collector's `booted_at`."""

    at: float
    lead: float
    body: Body | None
    reason: str = "ok"
    error: str = ""


class ParseQueue(asyncio.Queue["ScrapeResponse | None"]):
    """Responses to parse, the oldest first; ``None`` at the end. `slots` limits their number."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = asyncio.Semaphore(UNPARSED - 1)


class ScrapeTasks(NamedTuple):
    """Scraped target with its queue and its two tasks."""

    scraped: ScrapedTarget
    unparsed: ParseQueue
    requesting: asyncio.Task[None]
    parsing: asyncio.Task[None]


async def ended(tasks: ScrapeTasks) -> None:
    """Wait until the last request is done and all responses are parsed."""
    await asyncio.wait([tasks.requesting])
    tasks.unparsed.put_nowait(None)
    await tasks.parsing


async def forget(tasks: ScrapeTasks) -> None:
    """Forget a target's series once its last record is in the spool."""
    await ended(tasks)
    if tasks.scraped.unspooled:
        await asyncio.wait(tasks.scraped.unspooled)
    tasks.scraped.forget()
