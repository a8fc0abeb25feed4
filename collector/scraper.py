"""The scrape loop: each target at its own times, none waiting for another.

To ask a target has its time, and to read what it said has not: where the cores are short for seconds, bodies wait for their
turns, and no scrape is missed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from collector.clocks import Clock
from collector.exposition import GarbageBody
from collector.fetch import Body, Fetcher, FetchFailed
from collector.followed import Definitions, Followed
from collector.metrics import CollectorMetrics
from collector.naming import LimitExceeded
from collector.scrape_config import BODY_SIZE_LIMIT
from collector.segments import SpoolRecord
from collector.spool import Spool
from collector.spooling import Spooling
from collector.targets import Target, aligned, offset
from collector.turns import Turns
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
# Bodies of a target that may wait to be read, and its records that may wait for the disk. Others can have the cores, or keep the
# disk busy, for seconds, which must cost no scrape; for longer, the target is held up, rather than the memory filled. One that is
# scraped more often than once a second waits for each: a short pause would leave several to a crash. So does one with large
# bodies.
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
        self._spooling = Spooling(spool, lock, metrics)
        self._definitions = Definitions()
        self._clocks: dict[str, Clock] = {}  # by host
        self._followed: dict[int, _Following] = {}
        self._forgetting: set[asyncio.Task[None]] = set()
        self._told = asyncio.Event()
        self._turns = Turns()  # to read bodies
        self._waking: set[asyncio.Future[None]] = set()
        self._parsing = ThreadPoolExecutor(_PARSERS, "parsing")

    def follow(self, targets: Mapping[int, Target]) -> None:
        """Scrape these targets, by their ids in the database, and no others; those that go on are not disturbed."""
        if self._told.is_set():
            return
        for target_id, following in list(self._followed.items()):
            if targets.get(target_id) != following.followed.target:
                following.asking.cancel()
                self._forgetting.add(forgetting := asyncio.create_task(_forget(following)))
                forgetting.add_done_callback(self._forgetting.discard)
                del self._followed[target_id]
        new = [(target_id, target) for target_id, target in targets.items() if target_id not in self._followed]
        for number, (target_id, target) in enumerate(new):
            clock = self._clocks.setdefault(target.host, Clock())
            followed = Followed(target, target_id, self._definitions, self._metrics, time.time(), clock=clock)
            unread: _Unread = asyncio.Queue(_UNREAD)
            self._followed[target_id] = _Following(
                followed,
                unread,
                asyncio.create_task(self._ask(followed, unread, number * _MEETING_SECONDS)),
                asyncio.create_task(self._read(followed, unread)),
            )
        self._count()

    def states(self) -> dict[int, TargetState]:
        """Return how each target is, by id."""
        self._count()
        return {target_id: following.followed.state for target_id, following in self._followed.items()}

    async def stop(self) -> None:
        """Scrape all once more, and end: what runs did last shall not be missing. Safe to call twice."""
        self._told.set()
        for waking in list(self._waking):
            _wake(waking)
        if asking := [following.asking for following in self._followed.values()]:
            _, late = await asyncio.wait(asking, timeout=2 * _LAST_SECONDS)
            for task in late:
                task.cancel()
        await asyncio.gather(*map(_ended, self._followed.values()), *self._forgetting, return_exceptions=True)
        await self._spooling.stop()
        self._parsing.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, followed: Followed, unread: _Unread, after: float) -> None:
        """Ask for a body at each of its times, until told to stop and once more."""
        interval, shift = followed.target.interval, offset(followed.target)
        slot = math.floor((time.time() + after - shift) / interval) + 1
        while True:
            scheduled = slot * interval + shift
            await self._told_or(scheduled)
            now = time.time()
            if self._told.is_set():
                unread.put_nowait(await self._fetch(followed, now))
                return
            self._metrics.lag_seconds.observe(max(now - scheduled, 0))
            unread.put_nowait(answer := await self._fetch(followed, aligned(scheduled, now, interval)))
            if unread.full() or interval < 1 or len(answer.data) > _SMALL or not self._fetcher.has_room:
                await unread.join()
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

    async def _fetch(self, followed: Followed, at: float) -> _Answer:
        """Return what the target says when it is asked now."""
        target, began = followed.target, time.perf_counter()
        patience = min(target.patience, _LAST_SECONDS) if self._told.is_set() else target.patience
        try:
            said: Body | Exception = await self._fetcher.body(
                target.url,
                target.scraping.access,
                limit=target.scraping.limits.body_size_limit or BODY_SIZE_LIMIT,
                patience=patience,
                headers={"X-Prometheus-Scrape-Timeout-Seconds": f"{patience:g}"},
            )
        except Exception as error:  # noqa: BLE001 - told where it is read
            said = error
        return _Answer(at, began, said)

    async def _read(self, followed: Followed, unread: _Unread) -> None:
        """Read what it said, one body after the other."""
        while (answer := await unread.get()) is not None:
            await self._account(followed, answer)
            unread.task_done()

    async def _account(self, followed: Followed, answer: _Answer) -> None:
        """Keep what a scrape gave, or say why it gave nothing."""
        try:
            record = await self._take(followed, answer)
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
        self._metrics.scrape_seconds.observe(time.perf_counter() - answer.began)
        if said and followed.up is not False:
            _log.warning("%s cannot be scraped: %s", followed.target.url, said)
        elif not said and followed.up is False:
            _log.warning("%s can be scraped again", followed.target.url)
        followed.up, followed.error = not said, said
        if said:
            followed.per_second = 0.0

    async def _take(self, followed: Followed, answer: _Answer) -> SpoolRecord | None:
        if isinstance(answer.said, Exception):
            raise answer.said
        with answer.said as body:
            scrape, cost = None, len(body.data) * (_NEW_COSTS if followed.is_heavy else 1)
            if cost > _PARSED_AT_ONCE:
                scrape = await asyncio.get_running_loop().run_in_executor(self._parsing, followed.parse, body.data)
            await self._turns.mine(cost)
            if scrape is None:
                scrape = followed.parse(body.data)
            record = followed.take(scrape, answer.at, body.asked, body.answered)
        self._metrics.scraped.inc(len(scrape.refs))
        return record

    async def _keep(self, followed: Followed, record: SpoolRecord) -> None:
        unspooled = followed.unspooled
        unspooled.append(self._spooling.add(record))
        most = _UNSPOOLED if followed.target.interval >= 1 and not followed.is_crowded else 0
        while unspooled and (unspooled[0].done() or len(unspooled) > most):
            # Shielded: what was scraped is kept, also where the target is no longer wanted.
            await asyncio.shield(unspooled.popleft())

    def _count(self) -> None:
        followed = [following.followed for following in self._followed.values()]
        self._metrics.targets.labels("up").set(sum(one.up is True for one in followed))
        self._metrics.targets.labels("down").set(sum(one.up is False for one in followed))
        self._metrics.sample_rate.set(sum(one.per_second for one in followed))
        self._metrics.series.set(len(self._definitions.by_ref))


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a target said at a time, or why it said nothing."""

    at: float
    began: float
    said: Body | Exception

    @property
    def data(self) -> bytes:
        return b"" if isinstance(self.said, Exception) else self.said.data


class _Following(NamedTuple):
    """A target, and the two that are at work on it."""

    followed: Followed
    unread: _Unread
    asking: asyncio.Task[None]
    reading: asyncio.Task[None]


_Unread: TypeAlias = "asyncio.Queue[_Answer | None]"


def _wake(waking: asyncio.Future[None]) -> None:
    if not waking.done():
        waking.set_result(None)


async def _ended(following: _Following) -> None:
    """Wait until nothing more is asked, and all that was said is read."""
    await asyncio.wait([following.asking])
    await following.unread.put(None)
    await following.reading


async def _forget(following: _Following) -> None:
    """Let go of a target's series, once its last record is in the spool: what was said is kept, also where nobody wants it now."""
    await _ended(following)
    if following.followed.unspooled:
        await asyncio.wait(following.followed.unspooled)
    following.followed.forget()
