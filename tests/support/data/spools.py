"""Spool of a collector that scraped while the database was away."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.core.config.settings import Settings
from hypergauge.sql.ingest import targets
from hypergauge.sql.server.database import Database


def fill_spool(dsn: str, home: Path, scrapes: int, series: int) -> float:
    """Fill the spool of `home` as scrapes once per second would, up to half a minute ago.

    The series are gauges ``backlog`` with the number of the scrape, from 0 on.

    Returns
    -------
    float
        Time of the first scrape in Unix seconds.
    """
    settings = Settings(home=home, dsn=dsn)
    with Database(settings) as database, database.session() as connection:
        target = targets.register_target(connection, host="away", listener="backlog", instance="", url="http://away")
    definitions = {ref: SeriesDefinition(target, "backlog", "gauge", {"n": str(ref)}) for ref in range(series)}
    refs, dts = np.arange(series, dtype=np.uint32), np.ones(series, np.float32)
    begin = float(int(time.time()) - 30 - scrapes)
    spool = Spool(settings.spool_dir)
    for number in range(scrapes):
        values = np.full(series, float(number))
        spool.append(SpoolRecord(np.full(series, begin + number), refs, values, dts, definitions))
    spool.close()
    return begin
