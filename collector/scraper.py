"""The scrape loop: each target at its own times, none waiting for another."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.errors import BenchError
from collector.clocks import Clock
from collector.exposition import GarbageBody, Scrape
from collector.fetch import Body, Fetcher, FetchFailed
from collector.followed import Definitions, Followed
from collector.metrics import CollectorMetrics
from collector.naming import LimitExceeded
from collector.scrape_config import BODY_SIZE_LIMIT
from collector.segments import SpoolRecord
from collector.spool import Spool
from collector.targets import Target, aligned, offset
from sql.targets import TargetState

__all__ = ["Scraper"]

_log = logging.getLogger(__name__)

# A body of this many bytes is parsed in some 5 ms if its series are known, in fifty times that if they are new. Larger
# ones are parsed in threads, where they delay others by a switch of threads and not by all of it.
_PARSED_AT_ONCE = 1 << 20
_NEW_COSTS = 50
_PARSERS = 4
# Seconds after which the next of several targets that are new is begun with: to meet its series takes some 5 ms. A collector
# that met a thousand at once would be busy for so long that it gives answers up that are there.
_MEETING_SECONDS = 0.01
# Of an interval: a scrape whose time has passed by so much is begun all the same, as by Go's ticker and so by Prometheus. Where
# others take the loop's core for a second, its targets are scraped late instead of not at all.
_LATE = 0.5
# What a last scrape may take, in seconds, behind one that goes on: whoever stops the collector waits for both.
_LAST_SECONDS = 2.0
# What comes within so many seconds is one record of the spool, of so many samples at most. A thousand scrapes a second are
# then fifty records, and a crash costs no more than it would have cost anyway: scrapes that were on their way.
_TOGETHER_SECONDS, _TOGETHER_SAMPLES = 0.02, 10_000
# Scrapes of a target that may wait for the disk. A disk that others keep busy can take seconds to answer, which must cost no
# scrape; a slower one holds its target up, rather than fill the memory. One that is scraped more often than once a second waits
# for each: a short pause would leave several to a crash.
_UNSPOOLED = 10


class Scraper:
    """Scrapes targets and appends what they say to the spool. For one event loop.

    Parameters
    ----------
    spool, lock
        Where samples go, and what guards it: the writer takes from it in another thread.
    """

    def __init__(self, spool: Spool, lock: threading.Lock, metrics: CollectorMetrics, fetcher: Fetcher) -> None:
        self._spool, self._lock, self._metrics, self._fetcher = spool, lock, metrics, fetcher
        self._definitions = Definitions()
        self._clocks: dict[str, Clock] = {}  # by host
        self._followed: dict[int, tuple[Followed, asyncio.Task[None]]] = {}
        self._forgetting: set[asyncio.Task[None]] = set()
        self._told = asyncio.Event()
        self._waking: set[asyncio.Future[None]] = set()
        self._together: list[SpoolRecord] = []  # on their way to the spool
        self._appending: asyncio.Task[None] | None = None  # the last of them
        self._parsing = ThreadPoolExecutor(_PARSERS, "parsing")
        self._spooling = ThreadPoolExecutor(1, "spooling")  # a disk may be slow: the loop does not wait for it

    def follow(self, targets: Mapping[int, Target]) -> None:
        """Scrape these targets, by their ids in the database, and no others; those that go on are not disturbed."""
        if self._told.is_set():
            return
        for target_id, (followed, task) in list(self._followed.items()):
            if targets.get(target_id) != followed.target:
                task.cancel()
                self._forgetting.add(forgetting := asyncio.create_task(_forget(followed, task)))
                forgetting.add_done_callback(self._forgetting.discard)
                del self._followed[target_id]
        new = [(target_id, target) for target_id, target in targets.items() if target_id not in self._followed]
        for number, (target_id, target) in enumerate(new):
            clock = self._clocks.setdefault(target.host, Clock())
            followed = Followed(target, target_id, self._definitions, self._metrics, time.time(), clock=clock)
            following = asyncio.create_task(self._follow(followed, number * _MEETING_SECONDS))
            self._followed[target_id] = followed, following
        self._count()

    def states(self) -> dict[int, TargetState]:
        """Return how each target is, by id."""
        self._count()
        return {target_id: followed.state for target_id, (followed, _) in self._followed.items()}

    async def stop(self) -> None:
        """Scrape all once more, and end: what runs did last shall not be missing. Safe to call twice."""
        self._told.set()
        for waking in list(self._waking):
            _wake(waking)
        tasks = [task for _, task in self._followed.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=2 * _LAST_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._appending is not None:
            await self._appending
        self._parsing.shutdown(wait=False, cancel_futures=True)
        self._spooling.shutdown()

    async def _follow(self, followed: Followed, after: float) -> None:
        interval, shift = followed.target.interval, offset(followed.target)
        slot = math.floor((time.time() + after - shift) / interval) + 1
        while True:
            scheduled = slot * interval + shift
            await self._told_or(scheduled)
            now = time.time()
            if self._told.is_set():
                await self._scrape(followed, now)
                return
            self._metrics.lag_seconds.observe(max(now - scheduled, 0))
            await self._scrape(followed, aligned(scheduled, now, interval))
            by_now = (time.time() - shift) / interval
            if by_now < slot - 1:  # this host's clock was set back
                slot = math.floor(by_now) + 1
            else:  # what passed meanwhile is skipped, not made up for: its moment is gone
                following = max(math.ceil(by_now - _LATE), slot + 1)
                self._metrics.missed.inc(following - slot - 1)
                slot = following

    async def _told_or(self, scheduled: float) -> None:
        """Wait until then, or until told to stop: without the task that `asyncio.wait_for` would make for each."""
        if self._told.is_set():
            return
        waking = asyncio.get_running_loop().create_future()
        self._waking.add(waking)
        handle = waking.get_loop().call_later(max(scheduled - time.time(), 0), _wake, waking)
        try:
            await waking
        finally:
            handle.cancel()
            self._waking.discard(waking)

    async def _scrape(self, followed: Followed, at: float) -> None:
        began = time.perf_counter()
        try:
            record = await self._take(followed, at)
            if record is not None:
                await self._keep(followed, record)
            reason, said = "ok", ""
        except (FetchFailed, LimitExceeded) as error:
            reason, said = error.reason, str(error)
        except GarbageBody as error:
            reason, said = "garbage", str(error)
        except Exception as error:  # noqa: BLE001 - whatever a target has us do wrong, it costs this scrape alone
            _log.exception("%s: a scrape failed for a reason that lies here", followed.target.url)
            reason, said = "internal", type(error).__name__
        self._metrics.scrapes.labels(reason).inc()
        self._metrics.scrape_seconds.observe(time.perf_counter() - began)
        if said and followed.up is not False:
            _log.warning("%s cannot be scraped: %s", followed.target.url, said)
        elif not said and followed.up is False:
            _log.warning("%s can be scraped again", followed.target.url)
        followed.up, followed.error = not said, said
        if said:
            followed.per_second = 0.0

    async def _take(self, followed: Followed, at: float) -> SpoolRecord | None:
        target = followed.target
        patience = min(target.patience, _LAST_SECONDS) if self._told.is_set() else target.patience
        async with self._fetcher.body(
            target.url,
            target.scraping.access,
            limit=target.scraping.limits.body_size_limit or BODY_SIZE_LIMIT,
            patience=patience,
            headers={"X-Prometheus-Scrape-Timeout-Seconds": f"{patience:g}"},
        ) as body:
            scrape = await self._parse(followed, body)
            record = followed.take(scrape, at, body.asked, body.answered)
        self._metrics.scraped.inc(len(scrape.refs))
        return record

    async def _parse(self, followed: Followed, body: Body) -> Scrape:
        if len(body.data) * (_NEW_COSTS if followed.is_heavy else 1) <= _PARSED_AT_ONCE:
            return followed.parse(body.data)
        return await asyncio.get_running_loop().run_in_executor(self._parsing, followed.parse, body.data)

    async def _keep(self, followed: Followed, record: SpoolRecord) -> None:
        if not self._together:
            self._appending = asyncio.create_task(self._append_soon())
        self._together.append(record)
        assert self._appending is not None
        unspooled = followed.unspooled
        unspooled.append(self._appending)
        most = _UNSPOOLED if followed.target.interval >= 1 else 0
        while unspooled and (unspooled[0].done() or len(unspooled) > most):
            # Shielded: what was scraped is kept, also where the target is no longer wanted.
            await asyncio.shield(unspooled.popleft())

    async def _append_soon(self) -> None:
        await asyncio.sleep(_TOGETHER_SECONDS)
        records, self._together = self._together, []
        await asyncio.get_running_loop().run_in_executor(self._spooling, self._append, records)

    def _append(self, records: Sequence[SpoolRecord]) -> None:
        for record in _joined(records):
            try:
                with self._lock:
                    self._spool.append(record)
            except BenchError as error:
                self._metrics.dropped.labels("spool").inc(len(record))
                _log.error("%s", error)

    def _count(self) -> None:
        followed = [one for one, _ in self._followed.values()]
        self._metrics.targets.labels("up").set(sum(one.up is True for one in followed))
        self._metrics.targets.labels("down").set(sum(one.up is False for one in followed))
        self._metrics.sample_rate.set(sum(one.per_second for one in followed))
        self._metrics.series.set(len(self._definitions.by_ref))


def _wake(waking: asyncio.Future[None]) -> None:
    if not waking.done():
        waking.set_result(None)


def _joined(records: Iterable[SpoolRecord]) -> Iterator[SpoolRecord]:
    """Yield them together, as many at once as samples may be."""
    together: list[SpoolRecord] = []
    count = 0
    for record in records:
        if together and count + len(record) > _TOGETHER_SAMPLES:
            yield SpoolRecord.joined(together)
            together, count = [], 0
        together.append(record)
        count += len(record)
    if together:
        yield SpoolRecord.joined(together)


async def _forget(followed: Followed, task: asyncio.Task[None]) -> None:
    """Let go of a target's series, once its last record is in the spool."""
    await asyncio.wait([task, *followed.unspooled])
    followed.forget()
