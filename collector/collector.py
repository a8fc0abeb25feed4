"""Process of the collector: scraper, spool and writer together."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import sys
import threading
from collections.abc import Callable, Collection, Mapping
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
from hypergauge.collector.write.packer import Packer
from hypergauge.collector.write.sessions import SESSIONS_SECONDS, SessionWatch
from hypergauge.collector.write.writer import Writer
from hypergauge.core.errors import ServiceFailed
from hypergauge.core.http.server import MetricsServer
from hypergauge.core.system.periodic import Periodic
from hypergauge.sql.server.database import Database

if TYPE_CHECKING:
    from hypergauge.collector.discovery.discovery import Discovery

__all__ = ["collect"]

_REPORT_SECONDS = 1.0
_FOLLOW_SECONDS = 5.0
# Pause before the first packing, so that a start stays fast, and after a failure.
_PACK_SECONDS = 60.0
# Switch interval of threads: parsing a large response must not delay scrapes.
_SWITCH_SECONDS = 0.001
# Garbage collections of the middle generation per full one. With the series of a thousand targets, a full one blocks all
# scrapes for 0.3 s; by default it would run many times while the collector registers them.
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
    exporters: Collection[str] = (),
) -> None:
    """Collect from `targets` until SIGTERM or SIGINT; then scrape a last time, drain the spool, and return.

    Parameters
    ----------
    targets
        Function that returns the targets by key, called once a second; or a targets file, which is reread when it
        changes. Collectors with the same targets in their files share them.
    port, bind, web, insecure
        Server of the collector's own metrics, see `MetricsServer`.
    interval
        Default scrape interval of the targets file, in seconds.
    exporters
        Names of the exporters that runs choose from. Other targets are always scraped, as configured.

    Raises
    ------
    BadRequest
        The targets file has an error.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*gc.get_threshold()[:2], _COLLECTIONS)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one connection per target: the usual 1,024 are too few
    metrics = CollectorMetrics()
    discovery: Discovery | None = None
    wanted: Callable[[], Mapping[Key, Target]]
    if isinstance(targets, Path):
        # Here, since it imports pydantic: a collector of local exporters does not need it.
        from hypergauge.collector.discovery.discovery import Discovery

        discovery = found = Discovery(targets, interval, metrics, lambda: announced(database))
        wanted = lambda: found.targets  # noqa: E731
    else:
        wanted = targets
    spool = Spool(spool_dir)
    access = threading.Condition()
    leases = Leases(
        database,
        spool.source,
        metrics,
        shared=discovery is not None,
        memory=spool_dir / "others.json",
        exporters=exporters,
    )
    packer = Periodic("packer", Packer(database), _PACK_SECONDS)
    watch = SessionWatch(database, metrics)
    sessions = Periodic("sessions", watch, SESSIONS_SECONDS)
    try:
        with MetricsServer(lambda: generate_latest(metrics.registry), bind, port, web=web, insecure=insecure):
            leases.begin(wanted())
            writer = Writer(database, spool, access, metrics)
            writer.start()
            packer.start()
            sessions.start()
            asyncio.run(_run_until_signal(_ScrapeLoop(discovery, wanted, leases, spool, access, metrics), writer))
            writer.stop()
    finally:
        for periodic in (packer, sessions):
            periodic.end(timeout=0)  # a transaction that is cut off changes nothing
        watch.close()
        leases.close()
        spool.close()


class _ScrapeLoop:
    """Discovery and scrapes, in one event loop."""

    def __init__(
        self,
        discovery: Discovery | None,
        wanted: Callable[[], Mapping[Key, Target]],
        leases: Leases,
        spool: Spool,
        access: threading.Condition,
        metrics: CollectorMetrics,
    ) -> None:
        self._discovery, self._wanted, self._leases = discovery, wanted, leases
        self._spool, self._access, self._metrics = spool, access, metrics

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping` is set."""
        loop = asyncio.get_running_loop()
        async with Fetcher() as fetcher:
            scraper = Scraper(
                self._spool, self._access, self._metrics, fetcher, self._leases.kinds, self._spool.states,
                self._leases.held_since,
            )  # fmt: skip
            scraper.follow(self._leases.needed)
            reporter = Reporter(self._leases, self._wanted, lambda scraped: _call_in(loop, scraper.follow, scraped))
            reporter.start()
            discovering = asyncio.create_task(self._discovery.run(fetcher)) if self._discovery else None
            try:
                while not stopping.is_set():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stopping.wait(), _REPORT_SECONDS)
                    reporter.states = scraper.states()
                    if discovering is not None and discovering.done():
                        discovering.result()
            finally:
                if discovering is not None:
                    discovering.cancel()
                await scraper.stop()
                reporter.states = scraper.states()
                await asyncio.to_thread(reporter.stop)


def _call_in(
    loop: asyncio.AbstractEventLoop, call: Callable[[Mapping[int, Target]], None], targets: Mapping[int, Target]
) -> None:
    """Call in the loop from another thread, and wait: the caller then releases the targets that are no longer scraped."""

    async def called() -> None:
        call(targets)

    calling = called()
    try:
        asyncio.run_coroutine_threadsafe(calling, loop).result(_FOLLOW_SECONDS)
    except TimeoutError:
        return  # the loop is busy and calls later
    except RuntimeError:  # the loop has ended
        calling.close()


async def _run_until_signal(scrape_loop: _ScrapeLoop, writer: Writer) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    scraping = asyncio.create_task(scrape_loop.run(stopping))
    watching = asyncio.create_task(_end_of(writer))
    await asyncio.wait([scraping, watching], return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    if not writer.is_alive():
        scraping.cancel()
        raise ServiceFailed("the writer has ended unexpectedly; unwritten samples are in the spool")
    await scraping


async def _end_of(writer: Writer) -> None:
    while writer.is_alive():  # noqa: ASYNC110 - a thread sets no event when it dies
        await asyncio.sleep(1)
