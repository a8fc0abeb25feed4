"""The scrape loop with a slow disk and slow targets."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.support.servers import exporter
from hypergauge.collector.discovery.targets import Target
from hypergauge.collector.http.fetch import Fetcher
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.scrape.parse_budget import ParseBudget
from hypergauge.collector.scrape.scraper import Scraper
from hypergauge.collector.spool.queue import Spool
from tests.support.waiting import wait_for


@pytest.mark.parametrize(("interval", "most"), [(1.0, 4), (0.2, 0)])
def test_a_hanging_disk_costs_no_scrape_until_too_many_records_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: float, most: int
) -> None:
    monkeypatch.setattr("hypergauge.collector.scrape.scraper._UNSPOOLED", 3)
    monkeypatch.setattr("hypergauge.collector.scrape.scrape_tasks.UNPARSED", 1)  # besides the parsed response
    requests: list[None] = []

    def exposition() -> bytes:
        requests.append(None)
        return b"a 1\n"

    def samples() -> int:
        count = 0
        while (record := spool.take()) is not None:
            count += len(record)
        return count

    async def scrape(address: str) -> None:
        async with Fetcher() as fetcher:
            scraper = Scraper(spool, access, CollectorMetrics(), fetcher)
            scraper.follow({1: Target(f"http://{address}/metrics", "n1", "node", address, interval=interval)})
            await asyncio.to_thread(wait_for, lambda: len(requests) >= 2, "the first scrapes")
            with access:  # like a disk that does not respond
                before = len(requests)
                await asyncio.to_thread(wait_for, lambda: len(requests) >= before + most - 1, "scrapes meanwhile")
                await asyncio.sleep(3 * interval)
                held = len(requests) - before
                assert held <= most + 1
            await asyncio.to_thread(wait_for, lambda: len(requests) > before + held, "scrapes after the disk")
            await scraper.stop()

    access, spool = threading.Condition(), Spool(tmp_path)
    with exporter(exposition) as address:
        asyncio.run(scrape(address))
    assert samples() == len(requests)
    spool.close()


@pytest.mark.parametrize(("interval", "lines", "most"), [(1.0, 1, 3), (1.0, 10_000, 0), (0.2, 1, 0)])
def test_unparsed_responses_cost_no_scrape_until_too_many_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: float, lines: int, most: int
) -> None:
    monkeypatch.setattr("hypergauge.collector.scrape.scrape_tasks.UNPARSED", 2)
    text = b"".join(b"a%d 1\n" % number for number in range(lines))
    requests: list[None] = []

    def counted() -> float | None:
        return metrics.registry.get_sample_value("bench_collector_scraped_samples_total")

    def exposition() -> bytes:
        requests.append(None)
        return text

    async def scrape(address: str) -> None:
        core = asyncio.Event()  # set while a core is free for parsing
        core.set()
        monkeypatch.setattr(ParseBudget, "acquire", lambda *_: core.wait())
        async with Fetcher() as fetcher:
            scraper = Scraper(spool, threading.Condition(), metrics, fetcher)
            scraper.follow({1: Target(f"http://{address}/metrics", "n1", "node", address, interval=interval)})
            await asyncio.to_thread(wait_for, lambda: len(requests) >= 2, "the first scrapes")
            core.clear()
            before = len(requests)
            # A response that has just arrived may be among those that wait.
            await asyncio.to_thread(wait_for, lambda: len(requests) >= before + most - 1, "scrapes meanwhile")
            await asyncio.sleep(3 * interval)
            held = len(requests) - before
            assert held <= most + 1
            core.set()
            await asyncio.to_thread(wait_for, lambda: len(requests) > before + held, "scrapes thereafter")
            core.clear()
            cleared = time.monotonic()
            await asyncio.to_thread(
                wait_for, lambda: metrics.unread_seconds > 1.2 * interval, "the age of unparsed responses"
            )
            assert metrics.unread_seconds < time.monotonic() - cleared + interval
            scraper.follow({})  # responses of a removed target are kept
            core.set()
            await asyncio.to_thread(wait_for, lambda: counted() == len(requests) * lines, "all samples")
            await scraper.stop()
            assert metrics.unread_seconds == 0

    metrics, spool = CollectorMetrics(), Spool(tmp_path)
    with exporter(exposition) as address:
        asyncio.run(scrape(address))
    spool.close()


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_clock_step_costs_no_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    clock, ahead = time.time, 0
    monkeypatch.setattr(time, "time", lambda: clock() + ahead)
    answers: list[int] = []

    def exposition() -> bytes:
        answers.append(len(answers))
        return b"answer %d\n" % answers[-1]

    async def scrape(address: str) -> None:
        nonlocal ahead
        async with Fetcher() as fetcher:
            scraper = Scraper(spool, threading.Condition(), metrics, fetcher)
            scraper.follow({1: Target(f"http://{address}/metrics", "n1", "node", address, interval=0.2)})
            for set_to in (step, 0, 0):
                count = len(answers) + 3
                await asyncio.to_thread(wait_for, lambda: len(answers) > count, "some scrapes")  # noqa: B023
                ahead = set_to
            await scraper.stop()

    metrics, spool = CollectorMetrics(), Spool(tmp_path)
    with exporter(exposition) as address:
        asyncio.run(scrape(address))
    stored: list[float] = []
    while (record := spool.take()) is not None:
        stored += record.values.tolist()
    assert stored == answers
    missed = metrics.registry.get_sample_value("bench_collector_missed_scrapes_total")
    assert missed is not None
    assert missed < abs(step), "the step itself misses no scrape"
    spool.close()


@pytest.mark.parametrize("known", [0, 1000])
def test_a_hundred_thousand_new_series_block_the_loop_briefly(tmp_path: Path, known: int) -> None:
    """The measure is the CPU time of the loop's thread, which excludes other load on the machine."""
    text = b"".join(b'known{line="%06d"} 1\n' % number for number in range(known))
    many = text + b"".join(
        b'wide{some="label",line="%06d"} 1\n' % number for number in range(15_000 if known else 100_000)
    )
    answers = iter([text] * 2 if known else [])
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - began)

    async def scrape(address: str) -> None:
        ticking = asyncio.create_task(tick())
        async with Fetcher() as fetcher:
            scraper = Scraper(spool, threading.Condition(), metrics, fetcher)
            scraper.follow({1: Target(f"http://{address}/metrics", "n1", "node", address, interval=1.0, timeout=1.0)})
            while (metrics.registry.get_sample_value("bench_collector_scraped_samples_total") or 0) < 15_000:
                assert not ticking.done()
                await asyncio.sleep(0.05)
            ticking.cancel()
            await scraper.stop()

    metrics, spool = CollectorMetrics(), Spool(tmp_path)
    gc.freeze()  # the garbage collector skips objects of earlier tests
    try:
        with exporter(lambda: next(answers, many)) as address:
            asyncio.run(scrape(address))
    finally:
        gc.unfreeze()
    spool.close()
    assert longest < 0.15


def test_another_interval_applies_at_once_and_counters_continue(tmp_path: Path) -> None:
    """As a run chooses it, and back at its end. A target that waits for a minute is not waited for."""
    requests: list[None] = []

    def exposition() -> bytes:
        requests.append(None)
        return b"# TYPE a_total counter\na_total %d\n" % len(requests)

    def samples() -> float:
        increase = 0.0
        while (record := spool.take()) is not None:
            increase += float((record.values * record.dts).sum())
        return increase

    async def scrape(address: str) -> None:
        async with Fetcher() as fetcher:
            scraper = Scraper(spool, threading.Condition(), CollectorMetrics(), fetcher)
            slow = Target(f"http://{address}/metrics", "n1", "node", address, interval=0.5)
            scraper.follow({1: slow})
            await asyncio.to_thread(wait_for, lambda: len(requests) >= 2, "the first scrapes")
            scraper.follow({1: replace(slow, interval=60.0)})
            before = len(requests)
            await asyncio.sleep(2)
            assert len(requests) - before <= 2, "one under way, and perhaps the minute's"
            before = len(requests)
            scraper.follow({1: replace(slow, interval=0.1)})
            await asyncio.to_thread(wait_for, lambda: len(requests) >= before + 5, "fast scrapes")
            await scraper.stop()

    spool = Spool(tmp_path)
    with exporter(exposition) as address:
        asyncio.run(scrape(address))
    assert samples() == pytest.approx(len(requests) - 1), "each increase counts once"
    spool.close()
