"""The collector: a scraper and a writer with the spool between them."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import start_http_server

from bench.errors import ServiceFailed
from collector.metrics import CollectorMetrics
from collector.scraper import Scraper
from collector.spool import Spool
from collector.targets import Target
from collector.writer import Writer
from sql import samples
from sql.database import Database

__all__ = ["collect"]

_log = logging.getLogger(__name__)


def collect(database: Database, targets: Sequence[Target], spool_dir: Path, *, port: int, bind: str) -> None:
    """Collect from `targets` until SIGTERM or SIGINT; then scrape once more, write what is left, and return.

    Parameters
    ----------
    port, bind
        Where the collector's own figures are served.
    """
    metrics = CollectorMetrics()
    spool = Spool(spool_dir)
    lock = threading.Lock()
    server, server_thread = start_http_server(port, addr=bind, registry=metrics.registry)
    try:
        with database.session() as connection:
            ids = {
                samples.register_target(
                    connection, host=target.host, listener=target.listener, instance=target.instance, url=target.url
                ): target
                for target in targets
            }
        writer = Writer(database, spool, lock, metrics)
        writer.start()
        scraper = Scraper(ids, spool, lock, metrics, writer.target_states)
        asyncio.run(_until_told(scraper, writer))
        writer.stop()
    finally:
        server.shutdown()
        server_thread.join()
        spool.close()


async def _until_told(scraper: Scraper, writer: Writer) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    work = asyncio.create_task(scraper.run(told))
    waiting = asyncio.create_task(told.wait())
    watching = asyncio.create_task(_end_of(writer))
    await asyncio.wait([work, waiting, watching], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    watching.cancel()
    if not writer.is_alive():
        work.cancel()
        raise ServiceFailed("the writer has ended unexpectedly; what it had not written is in the spool")
    await work


async def _end_of(writer: Writer) -> None:
    while writer.is_alive():  # noqa: ASYNC110 - a thread sets no event when it dies
        await asyncio.sleep(1)
