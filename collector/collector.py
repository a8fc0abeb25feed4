"""The collector: scraper, spool and writer together."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import generate_latest

from hypergauge.collector.discovery.announced import announced
from hypergauge.collector.discovery.targets import Key, Target
from hypergauge.collector.http.fetch import Fetcher
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.scrape.scraper import Scraper
from hypergauge.collector.sharing.leases import Leases
from hypergauge.collector.sharing.reporter import Reporter
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.write.writer import Writer
from hypergauge.core.errors import ServiceFailed
from hypergauge.core.http.server import MetricsServer
from hypergauge.sql.server.database import Database

if TYPE_CHECKING:
    from hypergauge.collector.discovery.discovery import Discovery

__all__ = ["collect"]

_REPORT_SECONDS = 1.0
_TOLD_SECONDS = 5.0
# How long a thread that computes keeps another one waiting: parsing a large body must not make scrapes late.
_SWITCH_SECONDS = 0.001
# How many collections of garbage pass until one looks at all that there is: with the series of a thousand targets that takes
# 0.3 s, in which no scrape begins, and by default it comes again and again while these are met.
_COLLECTIONS = 1000


def collect(
    database: Database,
    targets: Callable[[], Mapping[Key, Target]] | Path,
    spool_dir: Path,
    *,
    port: int,
    bind: str,
    web: Path | None = None,
    insecure: bool = False,
    interval: float = 1.0,
) -> None:
    """Collect from `targets` until SIGTERM or SIGINT; then scrape once more, write what is left, and return.

    Parameters
    ----------
    targets
        What gives them by key, asked about once a second; or the targets file, which is followed as it changes. A
        file's are shared with other collectors that are given the same ones.
    port, bind, web, insecure
        Where and how the collector's own figures are served, see `MetricsServer`.
    interval
        Seconds between two scrapes where the file does not say.

    Raises
    ------
    BadRequest
        The targets file has an error.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*gc.get_threshold()[:2], _COLLECTIONS)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection a target; the usual 1,024 are soon too few
    metrics = CollectorMetrics()
    discovery: Discovery | None = None
    wanted: Callable[[], Mapping[Key, Target]]
    if isinstance(targets, Path):
        # With pydantic, which a collector of local exporters does without.
        from hypergauge.collector.discovery.discovery import Discovery

        discovery = found = Discovery(targets, interval, metrics, lambda: announced(database))
        wanted = lambda: found.targets  # noqa: E731
    else:
        wanted = targets
    spool = Spool(spool_dir)
    lock = threading.Lock()
    leases = Leases(database, spool.source, metrics, shared=discovery is not None, memory=spool_dir / "others.json")
    try:
        with MetricsServer(lambda: generate_latest(metrics.registry), bind, port, web=web, insecure=insecure):
            leases.begin(wanted())
            writer = Writer(database, spool, lock, metrics)
            writer.start()
            asyncio.run(_until_told(_Work(discovery, wanted, leases, spool, lock, metrics), writer))
            writer.stop()
    finally:
        leases.close()
        spool.close()


class _Work:
    """Event loop: targets are discovered and scraped."""

    def __init__(
        self,
        discovery: Discovery | None,
        wanted: Callable[[], Mapping[Key, Target]],
        leases: Leases,
        spool: Spool,
        lock: threading.Lock,
        metrics: CollectorMetrics,
    ) -> None:
        self._discovery, self._wanted, self._leases = discovery, wanted, leases
        self._spool, self._lock, self._metrics = spool, lock, metrics

    async def run(self, told: asyncio.Event) -> None:
        """Go on until `told`."""
        loop = asyncio.get_running_loop()
        async with Fetcher() as fetcher:
            scraper = Scraper(self._spool, self._lock, self._metrics, fetcher)
            scraper.follow(self._leases.held)
            reporter = Reporter(self._leases, self._wanted, lambda held: _told(loop, scraper.follow, held))
            reporter.start()
            discovering = asyncio.create_task(self._discovery.run(fetcher)) if self._discovery else None
            try:
                while not told.is_set():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(told.wait(), _REPORT_SECONDS)
                    reporter.states = scraper.states()
                    if discovering is not None and discovering.done():
                        discovering.result()
            finally:
                if discovering is not None:
                    discovering.cancel()
                await scraper.stop()
                reporter.states = scraper.states()
                await asyncio.to_thread(reporter.stop)


def _told(
    loop: asyncio.AbstractEventLoop, call: Callable[[Mapping[int, Target]], None], held: Mapping[int, Target]
) -> None:
    """Call in the loop, from another thread, and wait until that is done: what is held no longer is let go of then."""

    async def called() -> None:
        call(held)

    calling = called()
    try:
        asyncio.run_coroutine_threadsafe(calling, loop).result(_TOLD_SECONDS)
    except TimeoutError:
        return  # it is busy, and does so later
    except RuntimeError:  # it has ended
        calling.close()


async def _until_told(work: _Work, writer: Writer) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    working = asyncio.create_task(work.run(told))
    watching = asyncio.create_task(_end_of(writer))
    await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    if not writer.is_alive():
        working.cancel()
        raise ServiceFailed("the writer has ended unexpectedly; what it had not written is in the spool")
    await working


async def _end_of(writer: Writer) -> None:
    while writer.is_alive():  # noqa: ASYNC110 - a thread sets no event when it dies
        await asyncio.sleep(1)
