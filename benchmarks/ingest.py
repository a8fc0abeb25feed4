"""The whole path in process, a body's bytes to committed rows, against a bare binary COPY of the same rows."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from bench.config import Settings
from benchmarks.parse import SERIES, body
from collector.exposition import Parser
from collector.metrics import CollectorMetrics
from collector.rates import Rates
from collector.segments import SeriesDefinition, SpoolRecord
from collector.spool import Spool
from collector.writer import Writer
from sql import samples
from sql.database import Database
from sql.flavour import inspect

__all__ = ["measure"]

SCRAPES = 300


def measure() -> dict[str, float | str]:
    """Return rows a second of both on the database of the settings, an embedded one in a temporary home by default."""
    configured = Settings.load()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        settings = configured if configured.dsn else Settings(home=Path(folder))
        with Database(settings) as database, database.session() as connection:
            target = samples.register_target(connection, host="benchmark", listener="ingest", instance="", url="none")
            bodies = [body(seed) for seed in range(10)]
            start = time.time() - SCRAPES
            try:
                whole = _whole_path(database, Path(folder) / "spool", target, bodies, start)
                bare = _bare_copy(database, start)
            finally:
                connection.execute(
                    "delete from samples where series_id in (select series_id from series where target_id = %s)",
                    (target,),
                )
                connection.execute("delete from targets where target_id = %s", (target,))
            flavour = inspect(connection).flavour.value
    rows = SCRAPES * SERIES
    return {
        "flavour": flavour,
        "rows": rows,
        "rows_per_second": rows / whole,
        "bare_copy_rows_per_second": rows / bare,
        "ratio": bare / whole,
    }


def _whole_path(database: Database, folder: Path, target: int, bodies: list[bytes], start: float) -> float:
    parser, rates, spool, lock = Parser(), Rates(1.0), Spool(folder), threading.Lock()
    writer = Writer(database, spool, lock, CollectorMetrics())
    definitions: dict[int, SeriesDefinition] = {}
    began = time.perf_counter()
    writer.start()
    for number in range(SCRAPES):
        scrape = parser.parse(bodies[number % len(bodies)])
        for ref, series in scrape.new.items():
            definitions[ref] = SeriesDefinition(target, series.metric, series.kind, dict(series.labels))
        found = rates.samples(scrape, start + number)
        with lock:
            spool.append(SpoolRecord(found.times, found.refs, found.values, found.dts, definitions))
    writer.stop(timeout=300)
    seconds = time.perf_counter() - began
    spool.close()
    return seconds


def _bare_copy(database: Database, start: float) -> float:
    """Copy the same rows into the same table, one transaction of as many rows as the writer's."""
    with database.connect() as connection:
        ids = connection.execute(
            "select series_id from series join targets using (target_id) where listener = 'ingest'"
        )
        series = np.array([row[0] for row in ids.fetchall()], np.int32)
        values = np.random.default_rng(0).random(len(series) * SCRAPES)
        times = np.repeat(start + 3600 + np.arange(SCRAPES), len(series))
        zeros, ones = np.zeros(len(times), np.int32), np.ones(len(times), np.float32)
        began = time.perf_counter()
        with connection.transaction():
            samples.copy_samples(connection, samples.Columns(times, np.tile(series, SCRAPES), zeros, values, ones))
        return time.perf_counter() - began
