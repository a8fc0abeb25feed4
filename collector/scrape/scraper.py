"""The scrape loop. Each target has its own schedule and waits for no other.

To ask a target has its time, and to read what it said has not: where the cores are short for seconds, bodies wait for their
turns, and no scrape is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from hypergauge.collector.convert.clocks import Clock, set_by
from hypergauge.collector.convert.definitions import Definitions
from hypergauge.collector.convert.exposition import GarbageBody, ManyNew
from hypergauge.collector.convert.series_labels import LimitExceeded
from hypergauge.collector.discovery.scrape_config import BODY_SIZE_LIMIT
from hypergauge.collector.discovery.targets import Target, aligned, offset, slot_after
from hypergauge.collector.http.fetch import Body, Fetcher, FetchFailed
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.scrape.parse_budget import ParseBudget
from hypergauge.collector.scrape.scraped_target import ScrapedTarget
from hypergauge.collector.spool.appender import Appender
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.segments import SpoolRecord
from hypergauge.core.system.uptime import booted_at, uptime
from hypergauge.sql.ingest.targets import TargetState

__all__ = ["Scraper"]

_log = logging.getLogger(__name__)

# A body of this many bytes is parsed in some 5 ms if its series are known, in fifty times that if they are new. Larger
# ones are parsed in threads, where they delay others by a switch of threads and not by all of it.
_PARSED_AT_ONCE = 1 << 20
_NEW_COSTS = 50
# To meet so many series takes some 10 ms; a body with more of them is gone on with in a thread.
_MOST_NEW = 200
_PARSERS = 4
# Seconds after which the next of several targets that are new is begun with: to meet its series takes some 5 ms. A collector
# that met a thousand at once would be busy for so long that it gives answers up that are there.
_MEETING_SECONDS = 0.01
# What a last scrape may take, in seconds, behind one that goes on, and then to read all that was said: whoever stops the collector
# waits for all of it.
_LAST_SECONDS = 2.0
# Bodies of a target that may wait to be read, and its records that may wait for the disk. Others can have the cores, or keep the
# disk busy, for seconds, which must cost no scrape; for longer, the target is held up, rather than the memory filled. One that is
# scraped more often than once a second is asked again when the record is in the spool: a short pause would leave several to a
# crash. One with large bodies is asked again when the last one is read.
_UNREAD = _UNSPOOLED = 10
_SMALL = 1 << 16


class Scraper:
    """Scrapes targets and appends what they say to the spool. For one event loop.

    Parameters
    ----------
    spool, lock
        Where samples go, and what guards it: the writer takes from it in another thread.
    """

    def __init__(self, spool: Spool, lock: threading.Lock, metrics: CollectorMetrics, fetcher: Fetcher) -> None:
        self._metrics, self._fetcher = metrics, fetcher
        self._appender = Appender(spool, lock, metrics)
        self._definitions = Definitions()
        self._clocks: dict[str, Clock] = {}  # by host
        self._scraped: dict[int, _Following] = {}
        self._forgetting: set[asyncio.Task[None]] = set()
        self._told = asyncio.Event()
        self._parse_budget = ParseBudget()  # to read bodies
        # Of all targets, the oldest first, each with the monotonic time when it came.
        self._unread: dict[_Answer, float] = {}
        self._waking: set[asyncio.Future[None]] = set()
        self._parsing = ThreadPoolExecutor(_PARSERS, "parsing")

    def follow(self, targets: Mapping[int, Target]) -> None:
        """Scrape these targets, by their ids in the database, and no others; those that go on are not disturbed."""
        if self._told.is_set():
            return
        self._name_as_the_database_does(targets)
        for target_id, following in list(self._scraped.items()):
            if targets.get(target_id) != following.scraped.target:
                following.asking.cancel()
                self._forgetting.add(forgetting := asyncio.create_task(_forget(following)))
                forgetting.add_done_callback(self._forgetting.discard)
                del self._scraped[target_id]
        new = [(target_id, target) for target_id, target in targets.items() if target_id not in self._scraped]
        for number, (target_id, target) in enumerate(new):
            clock = self._clocks.setdefault(target.host, Clock())
            scraped = ScrapedTarget(
                target, target_id, self._definitions, self._metrics, time.time(), clock=clock, lead=booted_at()
            )
            unread = _Unread()
            self._scraped[target_id] = _Following(
                scraped,
                unread,
                asyncio.create_task(self._ask(scraped, unread, number * _MEETING_SECONDS)),
                asyncio.create_task(self._read(scraped, unread)),
            )
        self._count()

    def _name_as_the_database_does(self, targets: Mapping[int, Target]) -> None:
        """Go on with targets that have an id of the database's now, where numbers of our own served until it was there."""
        ids = {target.key: target_id for target_id, target in targets.items()}
        for number in [number for number in self._scraped if number < 0 and number not in targets]:
            if (target_id := ids.get(self._scraped[number].scraped.target.key)) is not None:
                following = self._scraped[target_id] = self._scraped.pop(number)
                following.scraped.target_id = target_id

    def states(self) -> dict[int, TargetState]:
        """Return how each target is, by id."""
        self._count()
        return {target_id: following.scraped.state for target_id, following in self._scraped.items()}

    async def stop(self) -> None:
        """Scrape all once more, and end: what runs did last shall not be missing. Safe to call twice."""
        self._told.set()
        for waking in list(self._waking):
            _wake(waking)
        if asking := [following.asking for following in self._scraped.values()]:
            _, late = await asyncio.wait(asking, timeout=2 * _LAST_SECONDS)
            for task in late:
                task.cancel()
        ending = asyncio.gather(*map(_ended, self._scraped.values()), *self._forgetting, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ending, 2 * _LAST_SECONDS)
        await self._appender.stop()
        self._parsing.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, scraped: ScrapedTarget, unread: _Unread, after: float) -> None:
        """Ask for a body at each of its times, until told to stop and once more."""
        interval, shift = scraped.target.interval, offset(scraped.target)
        lead = booted_at()
        slot = math.floor((time.time() + after - shift) / interval) + 1
        while True:
            scheduled = slot * interval + shift
            await self._told_or(scheduled - lead)
            before, lead = lead, booted_at()
            now = uptime() + lead
            if self._told.is_set():
                self._arrived(await self._fetch(scraped, now, lead), unread)
                return
            if set_by(before, lead):
                slot, scheduled = math.floor((now - shift) / interval), now
            self._metrics.lag_seconds.observe(max(now - scheduled, 0))
            size = self._arrived(await self._fetch(scraped, aligned(scheduled, now, interval), lead), unread)
            if interval < 1 or size > _SMALL or not self._fetcher.has_room:
                await unread.join()
            await unread.places.acquire()  # for what it says next
            following = slot_after(slot, (uptime() + lead - shift) / interval)
            self._metrics.missed.inc(max(following - slot - 1, 0))
            slot = following

    async def _told_or(self, scheduled: float) -> None:
        """Wait until then, by `uptime`, or until told to stop: without the task that `asyncio.wait_for` would make."""
        if self._told.is_set():
            return
        waking = asyncio.get_running_loop().create_future()
        self._waking.add(waking)
        handle = waking.get_loop().call_later(max(scheduled - uptime(), 0), _wake, waking)
        try:
            await waking
        finally:
            handle.cancel()
            self._waking.discard(waking)

    async def _fetch(self, scraped: ScrapedTarget, at: float, lead: float) -> _Answer:
        """Return what the target says when it is asked now."""
        target, began = scraped.target, time.perf_counter()
        patience = min(target.patience, _LAST_SECONDS) if self._told.is_set() else target.patience
        try:
            body = await self._fetcher.body(
                target.url,
                target.scraping.access,
                limit=target.scraping.limits.body_size_limit or BODY_SIZE_LIMIT,
                patience=patience,
                headers={"X-Prometheus-Scrape-Timeout-Seconds": f"{patience:g}"},
            )
            return _Answer(at, lead, body)
        except FetchFailed as error:
            return _Answer(at, lead, None, error.reason, str(error))
        except Exception as error:  # noqa: BLE001 - as where it is read
            return _Answer(at, lead, None, *_internal(scraped, error))
        finally:
            self._metrics.scrape_seconds.observe(time.perf_counter() - began)

    def _arrived(self, answer: _Answer, unread: _Unread) -> int:
        """Have an answer read in its turn; return its size in bytes."""
        self._unread[answer] = time.monotonic()
        self._metrics.unread_since = next(iter(self._unread.values()))
        unread.put_nowait(answer)
        return len(answer.body.data) if answer.body else 0

    async def _read(self, scraped: ScrapedTarget, unread: _Unread) -> None:
        """Read what it said, one body after the other."""
        while (answer := await unread.get()) is not None:
            unread.places.release()
            await self._account(scraped, answer)
            del self._unread[answer]
            self._metrics.unread_since = next(iter(self._unread.values()), math.inf)
            unread.task_done()

    async def _account(self, scraped: ScrapedTarget, answer: _Answer) -> None:
        """Keep what a scrape gave, or say why it gave nothing."""
        reason, said = answer.reason, answer.error
        try:
            if answer.body is not None:
                with answer.body as body:
                    record = await self._take(scraped, body, answer)
                if record is not None:
                    await self._keep(scraped, record)
            else:
                scraped.renumber()  # or it would keep alive what all others have left
        except LimitExceeded as error:
            reason, said = error.reason, str(error)
        except GarbageBody as error:
            reason, said = "garbage", str(error)
        except Exception as error:  # noqa: BLE001 - whatever a target has us do wrong, it costs this scrape alone
            reason, said = _internal(scraped, error)
        self._metrics.scrapes.labels(reason).inc()
        if said and scraped.up is not False:
            _log.warning("%s cannot be scraped: %s", scraped.target.url, said)
        elif not said and scraped.up is False:
            _log.warning("%s can be scraped again", scraped.target.url)
        scraped.up, scraped.error = not said, said
        if said:
            scraped.per_second = 0.0

    async def _take(self, scraped: ScrapedTarget, body: Body, answer: _Answer) -> SpoolRecord | None:
        parts = body.data, answer.at, body.asked, body.answered, answer.lead
        if len(body.data) * (_NEW_COSTS if scraped.is_heavy else 1) <= _PARSED_AT_ONCE:
            await self._parse_budget.mine(len(body.data))
            with contextlib.suppress(ManyNew):
                return scraped.read(*parts, _MOST_NEW)
        return await asyncio.get_running_loop().run_in_executor(self._parsing, scraped.read, *parts)

    async def _keep(self, scraped: ScrapedTarget, record: SpoolRecord) -> None:
        unspooled = scraped.unspooled
        unspooled.append(self._appender.add(record))
        most = _UNSPOOLED if scraped.target.interval >= 1 else 0
        while unspooled and (unspooled[0].done() or len(unspooled) > most):
            # Shielded: what was scraped is kept, also where the target is no longer wanted.
            await asyncio.shield(unspooled.popleft())

    def _count(self) -> None:
        scraped = [following.scraped for following in self._scraped.values()]
        self._metrics.targets.labels("up").set(sum(one.up is True for one in scraped))
        self._metrics.targets.labels("down").set(sum(one.up is False for one in scraped))
        self._metrics.sample_rate.set(sum(one.per_second for one in scraped))
        self._metrics.series.set(len(self._definitions.by_ref))


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """Answer of a target at a time, by a clock of that `booted_at`; or the reason for none, in a word and in a line."""

    at: float
    lead: float
    body: Body | None
    reason: str = "ok"
    error: str = ""


class _Unread(asyncio.Queue["_Answer | None"]):
    """Responses to be parsed, the oldest first; ``None`` at the end. `places` are for more."""

    def __init__(self) -> None:
        super().__init__()
        self.places = asyncio.Semaphore(_UNREAD - 1)


class _Following(NamedTuple):
    """A target, and the two that are at work on it."""

    scraped: ScrapedTarget
    unread: _Unread
    asking: asyncio.Task[None]
    reading: asyncio.Task[None]


def _internal(scraped: ScrapedTarget, error: Exception) -> tuple[str, str]:
    """Log a fault of ours; return it in a word and in a line."""
    _log.error("%s: a scrape failed for a reason that lies here", scraped.target.url, exc_info=error)
    return "internal", type(error).__name__


def _wake(waking: asyncio.Future[None]) -> None:
    if not waking.done():
        waking.set_result(None)


async def _ended(following: _Following) -> None:
    """Wait until nothing more is asked, and all that was said is read."""
    await asyncio.wait([following.asking])
    following.unread.put_nowait(None)
    await following.reading


async def _forget(following: _Following) -> None:
    """Let go of a target's series, once its last record is in the spool: what was said is kept, also where nobody wants it now."""
    await _ended(following)
    if following.scraped.unspooled:
        await asyncio.wait(following.scraped.unspooled)
    following.scraped.forget()
