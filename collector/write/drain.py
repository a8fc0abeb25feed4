"""Drain of the spool that a stopped collector left."""

from __future__ import annotations

import threading
from pathlib import Path

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.write.writer import Writer
from hypergauge.sql.server.database import Database

__all__ = ["drain"]


def drain(database: Database, spool_dir: Path, seconds: float) -> None:
    """Write what is in a spool, for so many seconds at most; what is left then stays there.

    Raises
    ------
    SpoolInUse
        Its collector goes on.
    SpoolUnwritable
        Its folder cannot be used.
    """
    spool = Spool(spool_dir)
    writer = Writer(database, spool, threading.Lock(), CollectorMetrics())
    writer.start()
    writer.stop(seconds)
    if not writer.is_alive():
        spool.close()
