"""Whole path in process, from a response to committed rows, against a bare binary COPY of the same rows."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psutil
import psycopg

from benchmarks.database.freshness import freshness
from benchmarks.measurement.parse import SERIES, exposition
from benchmarks.support.servers import Kind, own_database
from hypergauge.collector.convert.exposition import Parser
from hypergauge.collector.convert.rates import Rates
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.collector.write.packer import REST
from hypergauge.collector.write.writer import Writer
from hypergauge.sql.ingest import samples, targets
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server.database import Connection, Database

__all__ = ["WholePath", "measure"]

SCRAPES = 1200
ROUNDS = 7
HOUR = 3600
# Samples of so many hours are there to be packed, or compressed, while the whole path writes.
_OLD_HOURS = 4
_AGE = 5 * 24 * HOUR
EXPOSITIONS = [exposition(seed) for seed in range(10)]


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return speeds and memory with a database of its own, by default on an embedded server; `server` names another kind.

    Speeds are medians of alternating rounds; a round of the whole path begins with known series.
    """
    with (
        own_database("ingest", server) as database,
        database.session() as connection,
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
    ):
        flavour = inspect(connection).flavour
        with WholePath(database, connection, Path(folder)) as path:
            whole, bare, beside, shares, compressed = [], [], [], [], []
            path.write(1)  # creates the series
            for hour in range(_OLD_HOURS):
                path.copy(HOUR, since=time.time() - _AGE + hour * HOUR)
            connection.execute("checkpoint")  # else the rounds would wait for gigabytes of the old samples
            for _ in range(ROUNDS):
                whole.append(path.write(SCRAPES))
                bare.append(path.copy(SCRAPES))
                with _packing(database, flavour) as share:
                    beside.append(path.write(SCRAPES))
                shares.append(share[0])
                if flavour is Flavour.TIMESCALEDB:
                    compressed.append(path.copy(SCRAPES, compressed=True))
            early, late = path.memory()
        rows = SCRAPES * SERIES
        results = {
            "flavour": flavour.value,
            "rows": rows,
            "rows_per_second": rows / statistics.median(whole),
            "bare_copy_rows_per_second": rows / statistics.median(bare),
            "ratio": statistics.median(bare) / statistics.median(whole),
            "ratio_while_packing": statistics.median(bare) / statistics.median(beside),
            "packing_share": statistics.mean(shares),
            "memory_after_10_minutes_mib": early / 2**20,
            "memory_after_an_hour_mib": late / 2**20,
        }
        if compressed:
            results["direct_compress_rows_per_second"] = rows / statistics.median(compressed)
            results["direct_compress_ratio"] = statistics.median(bare) / statistics.median(compressed)
        return {**results, **freshness(database, Path(folder))}


@contextlib.contextmanager
def _packing(database: Database, flavour: Flavour) -> Iterator[list[float]]:
    """Pack old samples within the context as the collector does, or compress them again and again; yield the share of its time."""
    share: list[float] = []
    began = time.perf_counter()
    with database.session() as connection:

        def pack() -> None:
            with contextlib.suppress(psycopg.errors.QueryCanceled):
                if flavour is Flavour.POSTGRESQL:
                    aggregates.pack(connection, datetime.now(UTC) - timedelta(days=1), rest=REST)
                while flavour is Flavour.TIMESCALEDB:
                    connection.execute(
                        "select public.compress_chunk(c, recompress => true)"
                        " from public.show_chunks('bench.samples', older_than => now() - interval '1 day') c"
                    )
            worked.append(time.perf_counter() - began)

        worked: list[float] = []
        thread = threading.Thread(target=pack, daemon=True)
        thread.start()
        try:
            yield share
        finally:
            took = time.perf_counter() - began
            # The next round goes on with what this one left: each part is committed.
            while thread.is_alive():
                connection.cancel_safe()
                thread.join(0.1)
            share.append(min(worked[0] / took, 1.0))


class WholePath:
    """Parser, rates, spool and writer for one target, connected as in the collector."""

    def __init__(self, database: Database, connection: Connection, folder: Path) -> None:
        self._connection = connection
        self._target = targets.register_target(connection, host="benchmark", listener="ingest", instance="", url="none")
        self._parser, self._rates, self._access = Parser(), Rates(1.0), threading.Condition()
        self._spool = Spool(folder / "spool")
        self._definitions: dict[int, SeriesDefinition] = {}
        self._metrics = CollectorMetrics()
        self._writer = Writer(database, self._spool, self._access, self._metrics)
        # From an hour ago on: not in the future, and too young to be compressed meanwhile.
        self._clock = itertools.count(int(time.time()) - 8 * HOUR)
        self._written = 0

    def __enter__(self) -> WholePath:
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.stop()
        self._spool.close()

    def write(self, scrapes: int, each: Callable[[int], object] = lambda _: None) -> float:
        """Send `scrapes` responses through the whole path, and return the seconds until the last row is committed."""
        began = time.perf_counter()
        for number in range(scrapes):
            scrape = self._parser.parse(EXPOSITIONS[number % len(EXPOSITIONS)])
            for ref, series in scrape.new.items():
                self._definitions[ref] = SeriesDefinition(self._target, series.metric, series.kind, dict(series.labels))
            found = self._rates.samples(scrape, float(next(self._clock)))
            with self._access:
                self._spool.append(SpoolRecord(found.times, found.refs, found.values, found.dts, self._definitions))
                self._access.notify()
            each(number)
        self._written += scrapes * SERIES
        while self._metrics.samples._value.get() < self._written:
            time.sleep(0.001)
        return time.perf_counter() - began

    def copy(self, scrapes: int, *, compressed: bool = False, since: float | None = None) -> float:
        """Copy rows of the same series into the same table, in one transaction, and return the seconds.

        They follow the last ones, or begin at the time `since`.
        """
        ids = self._connection.execute("select series_id from series where target_id = %s", (self._target,)).fetchall()
        series = np.array([row[0] for row in ids], np.int32)
        count = scrapes * len(series)
        clock = self._clock if since is None else itertools.count(int(since))
        columns = samples.Columns(
            np.repeat([float(next(clock)) for _ in range(scrapes)], len(series)),
            np.tile(series, scrapes),
            np.zeros(count, np.int32),
            np.random.default_rng(0).random(count).round(6),
            np.ones(count, np.float32),
        )
        began = time.perf_counter()
        with self._connection.transaction():
            samples.copy_samples(self._connection, columns, compressed=compressed)
        return time.perf_counter() - began

    def memory(self) -> tuple[float, float]:
        """Send an hour of data at 1 Hz, and return the process's memory after 10 minutes and at the end."""
        process = psutil.Process()
        seen: dict[int, int] = {}

        def look(number: int) -> None:
            if number + 1 in (HOUR // 6, HOUR):
                seen[number + 1] = process.memory_info().rss
            if number % 60 == 59:  # at 1 Hz it would never be behind
                while self._spool.depth > 60:
                    time.sleep(0.01)

        self.write(HOUR, look)
        return seen[HOUR // 6], seen[HOUR]
