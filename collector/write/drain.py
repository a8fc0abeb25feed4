"""Drain of the spool of a stopped collector."""

from __future__ import annotations

import threading
from pathlib import Path

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.write.writer import Writer
from hypergauge.sql.server.database import Database

__all__ = ["drain"]


def drain(database: Database, spool_dir: Path, seconds: float) -> None:
    """Write the records of a spool, for `seconds` at most; the rest stays there.

    Raises
    ------
    SpoolInUse
        The collector of the spool is running.
    SpoolUnwritable
        The spool's folder is unusable.
    """
    spool = Spool(spool_dir)
    writer = Writer(database, spool, threading.Condition(), CollectorMetrics())
    writer.start()
    writer.stop(seconds)
    if not writer.is_alive():
        spool.close()
