"""Scraper: each target has its own schedule and waits for no other.

Requests are sent on schedule; responses are parsed later. On a busy host parsing falls behind, but no scrape is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypergauge.collector.convert.clocks import Clock, set_by
from hypergauge.collector.convert.definitions import Definitions
from hypergauge.collector.convert.exposition import GarbageExposition, ManyNew
from hypergauge.collector.convert.series_labels import LimitExceeded
from hypergauge.collector.discovery.scrape_config import BODY_SIZE_LIMIT
from hypergauge.collector.discovery.targets import Key, Target, aligned, crowded, offset, slot_after
from hypergauge.collector.http.fetch import Body, Fetcher, FetchFailed
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.scrape.last_lines import LastLines, delete_old
from hypergauge.collector.scrape.parse_budget import ParseBudget
from hypergauge.collector.scrape.resumption import Resumption, newest_samples
from hypergauge.collector.scrape.scrape_tasks import ParseQueue, ScrapeResponse, ScrapeTasks, ended, forget
from hypergauge.collector.scrape.scraped_target import ScrapedTarget
from hypergauge.collector.spool.appender import Appender
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SpoolRecord
from hypergauge.core.system.uptime import booted_at, uptime
from hypergauge.sql.ingest.catalog import Kind
from hypergauge.sql.ingest.targets import TargetState

__all__ = ["Scraper"]

_log = logging.getLogger(__name__)

# A response of this size takes some 5 ms to parse if its series are known, fifty times that if they are new. Larger ones
# go to threads, so that they do not delay other targets.
_PARSED_AT_ONCE = 1 << 20
_NEW_COSTS = 50
# This many new series take some 10 ms; a thread parses a response with more.
_MOST_NEW = 200
_PARSERS = 4
# Seconds between the first scrapes of new targets: each takes some 5 ms. A thousand at once would block the collector
# until responses time out.
_MEETING_SECONDS = 0.01
# Timeout of the last scrape in seconds, and of the current one before it: a stop waits for both.
_LAST_SECONDS = 2.0
# Records of a target that may wait for a busy disk. A target with an interval below a second waits for its record
# instead, since a crash would cost several. A target with large responses waits until the last one is parsed.
_UNSPOOLED = 10
_SMALL = 1 << 16


class Scraper:
    """Scraper of all targets, in one event loop; appends records to the spool.

    Parameters
    ----------
    spool, access
        The spool, and the access to it: the writer takes from it in another thread.
    kinds
        Kinds of the catalog's metrics.
    states
        Folder of the targets' states, from which counters continue after a restart; ``None`` for none.
    held_since
        Unix seconds since when no other collector has held a target, by its id.
    """

    def __init__(
        self,
        spool: Spool,
        access: threading.Condition,
        metrics: CollectorMetrics,
        fetcher: Fetcher,
        kinds: Mapping[str, Kind] | None = None,
        states: Path | None = None,
        held_since: Mapping[int, float] | None = None,
    ) -> None:
        self._metrics, self._fetcher = metrics, fetcher
        self._states, self._held_since = states, held_since if held_since is not None else {}
        self._newest = newest_samples(spool.newest)
        if states is not None:
            delete_old(states)
        self._met: set[Key] = set()  # targets of this process
        self._appender = Appender(spool, access, metrics)
        self._definitions = Definitions(kinds)
        self._clocks: dict[str, Clock] = {}  # by host
        self._crowded: set[str] = set()  # hosts whose targets are not scraped together
        self._scraped: dict[int, ScrapeTasks] = {}
        self._forgetting: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._parse_budget = ParseBudget()
        # Of all targets, the oldest first, each with its arrival time by the monotonic clock.
        self._unparsed: dict[ScrapeResponse, float] = {}
        self._parsing = ThreadPoolExecutor(_PARSERS, "parsing")

    def follow(self, targets: Mapping[int, Target]) -> None:
        """Scrape these targets, by their ids in the database, and no others.

        Unchanged ones continue, also those with another interval.
        """
        if self._stopping.is_set():
            return
        self._take_database_ids(targets)
        for target_id, tasks in list(self._scraped.items()):
            target = targets.get(target_id)
            if target == tasks.scraped.target:
                continue
            if target is not None and tasks.scraped.is_same_but_for_the_interval(target):
                tasks.scraped.scrape_every(target.interval)
            else:
                tasks.requesting.cancel()
                self._forgetting.add(forgetting := asyncio.create_task(forget(tasks)))
                forgetting.add_done_callback(self._forgetting.discard)
                del self._scraped[target_id]
        new = [(target_id, target) for target_id, target in targets.items() if target_id not in self._scraped]
        if new:
            self._crowded = crowded(targets.values())
        for number, (target_id, target) in enumerate(new):
            clock = self._clocks.setdefault(target.host, Clock())
            began = time.time()
            last_lines = LastLines(self._states, target.key) if self._states is not None else None
            resumption = Resumption()
            if last_lines is not None and target.key not in self._met:
                held_since = self._held_since.get(target_id, -math.inf)
                resumption = Resumption.read(last_lines, self._newest, held_since, began)
            scraped = ScrapedTarget(
                target, target_id, self._definitions, self._metrics, began, clock=clock, lead=booted_at(),
                last_lines=last_lines, resumption=resumption,
            )  # fmt: skip
            self._met.add(target.key)
            unparsed = ParseQueue()
            self._scraped[target_id] = ScrapeTasks(
                scraped,
                unparsed,
                asyncio.create_task(self._request(scraped, unparsed, number * _MEETING_SECONDS)),
                asyncio.create_task(self._parse(scraped, unparsed)),
            )
        self._count()

    def _take_database_ids(self, targets: Mapping[int, Target]) -> None:
        """Replace the collector's own target ids from an outage by those of the database."""
        ids = {target.key: target_id for target_id, target in targets.items()}
        for number in [number for number in self._scraped if number < 0 and number not in targets]:
            if (target_id := ids.get(self._scraped[number].scraped.target.key)) is not None:
                tasks = self._scraped[target_id] = self._scraped.pop(number)
                tasks.scraped.target_id = target_id

    def states(self) -> dict[int, TargetState]:
        """Return the state of each target, by id."""
        self._count()
        return {target_id: tasks.scraped.state for target_id, tasks in self._scraped.items()}

    async def stop(self) -> None:
        """Scrape all targets a last time, for the last samples of runs, and end; safe to call twice."""
        self._stopping.set()
        for tasks in self._scraped.values():
            tasks.scraped.waking.set()
        if requesting := [tasks.requesting for tasks in self._scraped.values()]:
            _, late = await asyncio.wait(requesting, timeout=2 * _LAST_SECONDS)
            for task in late:
                task.cancel()
        ending = asyncio.gather(*map(ended, self._scraped.values()), *self._forgetting, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ending, 2 * _LAST_SECONDS)
        await self._appender.stop()
        self._parsing.shutdown(wait=False, cancel_futures=True)

    async def _request(self, scraped: ScrapedTarget, unparsed: ParseQueue, after: float) -> None:
        """Send requests on schedule, and a last one when the scraper stops."""
        interval, shift, slot = 0.0, 0.0, 0
        lead = booted_at()
        while True:
            if interval != scraped.target.interval:  # at first, and when runs choose another one
                interval = scraped.target.interval
                shift = offset(scraped.target, together=scraped.target.host not in self._crowded)
                slot, after = math.floor((uptime() + lead + after - shift) / interval) + 1, 0.0
            scheduled = slot * interval + shift
            await self._wait(scraped, scheduled - lead)
            before, lead = lead, booted_at()
            now = uptime() + lead
            if self._stopping.is_set():
                self._arrived(await self._fetch(scraped, now, lead), unparsed)
                return
            if interval != scraped.target.interval:
                continue
            if set_by(before, lead):
                slot, scheduled = math.floor((now - shift) / interval), now
            self._metrics.lag_seconds.observe(max(now - scheduled, 0))
            size = self._arrived(await self._fetch(scraped, aligned(scheduled, now, interval), lead), unparsed)
            if interval < 1 or size > _SMALL or not self._fetcher.has_room:
                await unparsed.join()
            await unparsed.slots.acquire()  # for the next response
            next_slot = slot_after(slot, (uptime() + lead - shift) / interval)
            self._metrics.missed.inc(max(next_slot - slot - 1, 0))
            slot = next_slot

    async def _wait(self, scraped: ScrapedTarget, scheduled: float) -> None:
        """Wait until `scheduled` by `uptime`, for the stop or another interval; without the task of `asyncio.wait_for`."""
        if self._stopping.is_set():
            return
        scraped.waking.clear()
        handle = asyncio.get_running_loop().call_later(max(scheduled - uptime(), 0), scraped.waking.set)
        try:
            await scraped.waking.wait()
        finally:
            handle.cancel()

    async def _fetch(self, scraped: ScrapedTarget, at: float, lead: float) -> ScrapeResponse:
        """Request a response now."""
        target, began = scraped.target, time.perf_counter()
        timeout = min(target.effective_timeout, _LAST_SECONDS) if self._stopping.is_set() else target.effective_timeout
        try:
            body = await self._fetcher.body(
                target.url,
                target.scraping.access,
                limit=target.scraping.limits.body_size_limit or BODY_SIZE_LIMIT,
                seconds=timeout,
                headers={"X-Prometheus-Scrape-Timeout-Seconds": f"{timeout:g}"},
            )
            return ScrapeResponse(at, lead, body)
        except FetchFailed as error:
            return ScrapeResponse(at, lead, None, error.reason, str(error))
        except Exception as error:  # noqa: BLE001 - as in `_account`
            return ScrapeResponse(at, lead, None, *_internal(scraped, error))
        finally:
            self._metrics.scrape_seconds.observe(time.perf_counter() - began)

    def _arrived(self, response: ScrapeResponse, unparsed: ParseQueue) -> int:
        """Queue a response for parsing; return its size in bytes."""
        self._unparsed[response] = time.monotonic()
        self._metrics.unread_since = next(iter(self._unparsed.values()))
        unparsed.put_nowait(response)
        return len(response.body.data) if response.body else 0

    async def _parse(self, scraped: ScrapedTarget, unparsed: ParseQueue) -> None:
        """Parse responses, one after the other."""
        while (response := await unparsed.get()) is not None:
            unparsed.slots.release()
            await self._account(scraped, response)
            del self._unparsed[response]
            self._metrics.unread_since = next(iter(self._unparsed.values()), math.inf)
            unparsed.task_done()

    async def _account(self, scraped: ScrapedTarget, response: ScrapeResponse) -> None:
        """Store the samples of a scrape, or the reason for none."""
        reason, problem = response.reason, response.error
        try:
            if response.body is not None:
                with response.body as body:
                    record = await self._take(scraped, body, response)
                saving, scraped.saving = scraped.saving, None
                if record is not None or saving is not None:
                    await self._keep(scraped, record, saving)
            else:
                scraped.renumber()  # else it would keep the previous numbering alive
        except LimitExceeded as error:
            reason, problem = error.reason, str(error)
        except GarbageExposition as error:
            reason, problem = "garbage", str(error)
        except Exception as error:  # noqa: BLE001 - an internal error costs this scrape alone
            reason, problem = _internal(scraped, error)
        self._metrics.scrapes.labels(reason).inc()
        if problem and scraped.up is not False:
            _log.warning("%s cannot be scraped: %s", scraped.target.url, problem)
        elif not problem and scraped.up is False:
            _log.warning("%s can be scraped again", scraped.target.url)
        scraped.up, scraped.error = not problem, problem
        if problem:
            scraped.per_second = 0.0

    async def _take(self, scraped: ScrapedTarget, body: Body, response: ScrapeResponse) -> SpoolRecord | None:
        parts = body.data, response.at, body.requested, body.answered, response.lead
        if len(body.data) * (_NEW_COSTS if scraped.is_heavy else 1) <= _PARSED_AT_ONCE:
            await self._parse_budget.acquire(len(body.data))
            with contextlib.suppress(ManyNew):
                return scraped.read(*parts, _MOST_NEW)
        return await asyncio.get_running_loop().run_in_executor(self._parsing, scraped.read, *parts)

    async def _keep(
        self, scraped: ScrapedTarget, record: SpoolRecord | None, saving: Callable[[], None] | None
    ) -> None:
        unspooled = scraped.unspooled
        unspooled.append(self._appender.add(record, saving))
        most = _UNSPOOLED if scraped.target.interval >= 1 else 0
        while unspooled and (unspooled[0].done() or len(unspooled) > most):
            # Shielded: samples are stored even if the target is removed.
            await asyncio.shield(unspooled.popleft())

    def _count(self) -> None:
        scraped = [tasks.scraped for tasks in self._scraped.values()]
        self._metrics.targets.labels("up").set(sum(one.up is True for one in scraped))
        self._metrics.targets.labels("down").set(sum(one.up is False for one in scraped))
        self._metrics.sample_rate.set(sum(one.per_second for one in scraped))
        self._metrics.series.set(len(self._definitions.by_ref))


def _internal(scraped: ScrapedTarget, error: Exception) -> tuple[str, str]:
    """Log an internal error; return its reason as one word and one line."""
    _log.error("%s: internal error in a scrape", scraped.target.url, exc_info=error)
    return "internal", type(error).__name__
