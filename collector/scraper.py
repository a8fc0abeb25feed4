"""The scrape loop: each target at its own times, none waiting for another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from dataclasses import dataclass, field

import aiohttp
import numpy as np

from bench.errors import BenchError
from collector.exposition import Parser, Scrape
from collector.metrics import CollectorMetrics
from collector.rates import Rates
from collector.segments import SeriesDefinition, SpoolRecord
from collector.spool import Spool
from collector.targets import Target, aligned, offset

__all__ = ["Scraper"]

_log = logging.getLogger(__name__)

_MAX_BODY_BYTES = 64 << 20
_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
# A run's counters begin at 0 when it does, as OpenMetrics' `_created` would say; the listener tells when that was.
_BIRTH_METRIC = "bench_process_start_time_seconds"
# How much later than its first moment a run may show up in a body, in seconds.
_BIRTH_SLACK = 5.0


@dataclass(slots=True)
class _State:
    """What is kept of one target between scrapes. `refs` gives the collector-wide refs by the parser's."""

    target: Target
    target_id: int
    rates: Rates
    parser: Parser = field(default_factory=Parser)
    refs: np.ndarray[tuple[int], np.dtype[np.uint32]] = field(default_factory=lambda: np.zeros(0, np.uint32))
    last_time: float | None = None


class Scraper:
    """Scrapes targets and appends what they say to the spool.

    Parameters
    ----------
    targets
        The targets with their ids in the database.
    spool, lock
        Where samples go, and what guards it: the writer takes from it in another thread.
    states
        Filled by target id with whether its last scrape worked, and when one last did.
    """

    def __init__(
        self,
        targets: dict[int, Target],
        spool: Spool,
        lock: threading.Lock,
        metrics: CollectorMetrics,
        states: dict[int, tuple[bool, float | None]],
    ) -> None:
        self._began = time.time()
        self._targets = [
            _State(target, target_id, Rates(target.interval, since=self._began))
            for target_id, target in targets.items()
        ]
        self._spool, self._lock, self._metrics, self._up = spool, lock, metrics, states
        self._definitions: dict[int, SeriesDefinition] = {}
        self._next_ref = 0

    async def run(self, told: asyncio.Event) -> None:
        """Scrape until `told`, and then once more: what runs did last shall not be missing."""
        timeout = aiohttp.ClientTimeout(total=10)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=75)
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=connector, headers={"Accept": _ACCEPT}) as session,
            asyncio.TaskGroup() as group,
        ):
            for state in self._targets:
                group.create_task(self._follow(session, state, told))

    async def _follow(self, session: aiohttp.ClientSession, state: _State, told: asyncio.Event) -> None:
        interval, shift = state.target.interval, offset(state.target)
        slot = math.floor((time.time() - shift) / interval) + 1
        while not told.is_set():
            scheduled = slot * interval + shift
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), max(scheduled - time.time(), 0))
            at = aligned(scheduled, time.time(), interval)
            await self._scrape(session, state, at)
            # Slots that passed meanwhile are skipped, not made up for: their moment is gone.
            following = max(slot + 1, math.floor((time.time() - shift) / interval) + 1)
            self._metrics.missed.inc(following - slot - 1)
            slot = following

    async def _scrape(self, session: aiohttp.ClientSession, state: _State, at: float) -> None:
        target = state.target
        limit = aiohttp.ClientTimeout(total=min(max(target.interval, 1.0), 10.0))
        try:
            async with session.get(target.url, timeout=limit, max_redirects=3) as response:
                response.raise_for_status()
                body = await _body(response)
            scrape = state.parser.parse(body)
        except (aiohttp.ClientError, TimeoutError, BenchError, OSError) as error:
            self._metrics.scrapes.labels(type(error).__name__).inc()
            if self._up.get(state.target_id, (True, None))[0]:
                _log.warning("%s cannot be scraped: %s", target.url, error or type(error).__name__)
            self._up[state.target_id] = (False, self._up.get(state.target_id, (False, None))[1])
            return
        self._metrics.scrapes.labels("ok").inc()
        self._up[state.target_id] = (True, at)
        self._keep(state, scrape, at)

    def _keep(self, state: _State, scrape: Scrape, at: float) -> None:
        self._count(scrape)
        self._name(state, scrape)
        found = state.rates.samples(scrape, at, self._births(state, scrape, at))
        self._metrics.dropped.labels("stale").inc(found.dropped)
        state.last_time = at
        if not len(found.refs):
            return
        refs = state.refs[found.refs]
        record = SpoolRecord(found.times, refs, found.values, found.dts, self._definitions)
        try:
            with self._lock:
                self._spool.append(record)
                self._metrics.spool_records.set(self._spool.depth)
                self._metrics.spool_bytes.set(self._spool.size)
        except BenchError as error:
            self._metrics.dropped.labels("spool").inc(len(record))
            _log.error("%s", error)

    def _count(self, scrape: Scrape) -> None:
        for reason, count in (("malformed", scrape.malformed), ("repeated", scrape.repeated)):
            if count:
                self._metrics.dropped.labels(reason).inc(count)

    def _name(self, state: _State, scrape: Scrape) -> None:
        """Give new series refs of the collector."""
        if not scrape.new:
            return
        grown = np.zeros(len(state.parser.series), np.uint32)
        grown[: len(state.refs)] = state.refs
        for ref, series in scrape.new.items():
            if ref < len(state.refs):  # the parser has forgotten a series and given its ref away
                self._definitions.pop(int(state.refs[ref]), None)
            labels = {**state.target.labels, **dict(series.labels)}
            self._definitions[self._next_ref] = SeriesDefinition(state.target_id, series.metric, series.kind, labels)
            grown[ref] = self._next_ref
            self._next_ref += 1
        state.refs = grown
        self._metrics.series.set(len(self._definitions))

    def _births(self, state: _State, scrape: Scrape, at: float) -> dict[int, float]:
        """Return when the new counters of new runs were 0, by the parser's refs."""
        starts = {
            dict(series.labels).get("run_id", ""): ref
            for ref, series in scrape.new.items()
            if series.metric == _BIRTH_METRIC
        }
        if not starts:
            return {}
        figures = dict(zip(scrape.refs.tolist(), scrape.values.tolist(), strict=True))
        # An older run has been measured before, if not by this process: its counters go on from where they are.
        earliest = self._began if state.last_time is None else state.last_time - _BIRTH_SLACK
        births = {run_id: figures[ref] for run_id, ref in starts.items() if earliest <= figures[ref] <= at + 1}
        return {
            ref: births[run_id]
            for ref, series in scrape.new.items()
            if series.kind == "counter" and (run_id := dict(series.labels).get("run_id", "")) in births
        }


async def _body(response: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > _MAX_BODY_BYTES:
            raise aiohttp.ClientPayloadError(f"the body is larger than {_MAX_BODY_BYTES} bytes")
    return b"".join(chunks)
