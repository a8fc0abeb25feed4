"""The scrape loop beside a disk that is slow, and beside targets that are."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from benchmarks.servers import exporter
from collector.fetch import Fetcher
from collector.metrics import CollectorMetrics
from collector.scraper import Scraper
from collector.spool import Spool
from collector.targets import Target
from tests.e2e.home import wait_for


@pytest.mark.parametrize(("interval", "most"), [(1.0, 3), (0.2, 0)])
def test_a_disk_that_stands_still_costs_no_scrape_until_too_many_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: float, most: int
) -> None:
    monkeypatch.setattr("collector.scraper._UNSPOOLED", 3)
    asked: list[None] = []

    def body() -> bytes:
        asked.append(None)
        return b"a 1\n"

    def records() -> int:
        count = 0
        while spool.take() is not None:
            count += 1
        return count

    async def scrape(address: str) -> None:
        async with Fetcher() as fetcher:
            scraper = Scraper(spool, lock, CollectorMetrics(), fetcher)
            scraper.follow({1: Target(f"http://{address}/metrics", "n1", "node", address, interval=interval)})
            await asyncio.to_thread(wait_for, lambda: len(asked) >= 2, "the first scrapes")
            with lock:  # as while the disk does not answer
                before = len(asked)
                await asyncio.sleep((most + 3) * interval)
                held = len(asked) - before
                assert most <= held <= most + 1
                await asyncio.sleep(2 * interval)
                assert len(asked) - before == held
            await asyncio.to_thread(wait_for, lambda: len(asked) > before + held, "scrapes after the disk has answered")
            await scraper.stop()

    lock, spool = threading.Lock(), Spool(tmp_path)
    with exporter(body) as address:
        asyncio.run(scrape(address))
    assert records() == len(asked)
    spool.close()


@pytest.mark.parametrize(("seconds", "missed", "after"), [(0.6, 0, 0.6), (0.85, 1, 1.0)])
def test_a_scrape_whose_time_has_just_passed_is_begun_late(
    tmp_path: Path, seconds: float, missed: int, after: float
) -> None:
    asked: list[float] = []

    def body() -> bytes:
        asked.append(time.monotonic())
        if len(asked) == 3:
            time.sleep(seconds)
        return b"a 1\n"

    async def scrape(address: str) -> None:
        async with Fetcher() as fetcher:
            scraper = Scraper(spool, threading.Lock(), metrics, fetcher)
            scraper.follow({1: Target(f"http://{address}/metrics", "n1", "node", address, interval=0.5)})
            await asyncio.to_thread(wait_for, lambda: len(asked) >= 6, "scrapes after the slow one")
            await scraper.stop()

    metrics, spool = CollectorMetrics(), Spool(tmp_path)
    with exporter(body) as address:
        asyncio.run(scrape(address))
    spool.close()
    assert metrics.registry.get_sample_value("bench_collector_missed_scrapes_total") == missed
    assert asked[3] - asked[2] == pytest.approx(after, abs=0.15)
    assert asked[4] - asked[2] == pytest.approx(1.0 + 0.5 * missed, abs=0.15)
