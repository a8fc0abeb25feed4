"""Cost of charts for writers: on the primary, and on a streaming replica.

The machine is divided into two hosts: the primary and its writers have one half of the cores, the replica and its readers
the other. Otherwise both would share the cores, and the result would be the kernel scheduler's.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path

import psutil
import psycopg

from benchmarks.database.ingest import WholePath
from benchmarks.database.query import settle
from benchmarks.measurement.parse import SERIES
from benchmarks.support import week
from benchmarks.support.servers import Kind, streaming_replica
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.sql.ingest import samples
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.server.replica import has_replayed, wal_position

__all__ = ["measure"]

READERS = 2
SCRAPES = 1200  # 20 minutes of 1,120 series at a time
ROUNDS = 3
QUANTITIES = ("gpu_sm_active", "gpu_power", "gpu_memory_used", "gpu_utilization")

_CHART = "select * from run_chart(array[%s], array[%s], null, null, 20000, true, 40, null, true)"
_STEPS = ("alone", "replica", "primary", "primary", "replica", "alone")


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return rows per second without charts, with charts on the replica, and on the primary, in that order and back.

    The database is its own, on TimescaleDB unless `server` names another; its replica has the same settings. `READERS`
    query charts of 16 series over six hours without a pause, one core each.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchError("two hosts need at least two cores")
    writing, reading = cores[: len(cores) // 2], cores[len(cores) // 2 :]
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        _pair(Path(folder), server or Kind.TIMESCALEDB) as (primary, copy),
    ):
        settings = Settings(home=Path(folder), dsn=primary.dsn, read_dsn=copy.dsn)
        with (
            Database(settings) as database,
            database.session() as connection,
            Database(settings, reading=True).session() as reader,
        ):
            long_run = _load(connection)
            _catch_up(connection, reader)
            _pin(_postmaster(primary), writing)
            _pin(_postmaster(copy), reading)
            _pin(psutil.Process(), writing)
            with WholePath(database, connection, Path(folder)) as path:
                path.write(1)  # creates the series
                found = _rounds(
                    path, connection, reader, {"replica": copy.dsn, "primary": primary.dsn}, long_run, reading
                )
            return {"flavour": inspect(connection).flavour.value, "cores": len(cores), **found}


def _rounds(
    path: WholePath, connection: Connection, reader: Connection, servers: dict[str, str], run_id: str,
    cores: Sequence[int],
) -> dict[str, float]:  # fmt: skip
    rates: dict[str, list[float]] = {step: [] for step in _STEPS}
    charts: dict[str, list[float]] = {step: [] for step in servers}
    late = []
    for step in itertools.chain.from_iterable([_STEPS] * ROUNDS):
        connection.execute("checkpoint")  # so that no round starts with work of the one before
        with _querying(servers.get(step), run_id, cores) as charted:
            before, began = charted.value, time.perf_counter()
            rates[step].append(SCRAPES * SERIES / path.write(SCRAPES))
            if step in servers:
                charts[step].append((charted.value - before) / (time.perf_counter() - began))
            waited = _catch_up(connection, reader)
            if step == "replica":
                late.append(waited)
    middle = {step: statistics.median(found) for step, found in rates.items()}
    return {
        **{f"rows_per_second_{step}": rate for step, rate in middle.items()},
        "ratio": middle["replica"] / middle["alone"],
        "ratio_on_primary": middle["primary"] / middle["alone"],
        "spread_alone": max(rates["alone"]) / min(rates["alone"]),
        **{f"charts_per_second_on_{step}": statistics.median(found) for step, found in charts.items()},
        "caught_up_after_seconds": max(late),
    }


@contextlib.contextmanager
def _pair(folder: Path, kind: Kind) -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    primary = kind.make(folder / "primary")
    primary.acquire()
    try:
        with streaming_replica(primary, folder / "replica") as copy:
            yield primary, copy
    finally:
        primary.release()


def _load(connection: Connection) -> str:
    """Write the six hours of a cluster's long run, and return that run."""
    if inspect(connection).timescaledb:
        connection.execute(
            "select public.alter_job(job_id, scheduled => false) from timescaledb_information.jobs"
            " where hypertable_schema is not null or proc_schema = 'bench_internal'"
        )
    cluster = week.build(connection, time.time(), short_runs=8)
    end = cluster.end - 2 * week.HOUR
    for columns in week.rows(replace(cluster, begin=end - week.LONG, end=end), connection):
        with connection.transaction():
            samples.copy_samples(connection, samples.Columns(*columns))
    connection.execute("delete from retag_queue")
    settle(connection)
    return cluster.long_run


def _catch_up(connection: Connection, reader: Connection) -> float:
    """Wait until the replica has all written rows, and return the duration."""
    began, position = time.perf_counter(), wal_position(connection)
    while not has_replayed(reader, position):
        time.sleep(0.01)
    return time.perf_counter() - began


def _postmaster(server: EmbeddedServer) -> psutil.Process:
    return psutil.Process(int((server.data / "postmaster.pid").read_text().split("\n", 1)[0]))


def _pin(process: psutil.Process, cores: Sequence[int]) -> None:
    """Restrict a process, its threads and child processes to some cores; later ones inherit it."""
    for one in (process, *process.children(recursive=True)):
        for thread in one.threads():
            os.sched_setaffinity(thread.id, cores)


@contextlib.contextmanager
def _querying(dsn: str | None, run_id: str, cores: Sequence[int]) -> Iterator[Synchronized[int]]:
    """Query a server constantly, if there is one, and yield the number of charts so far."""
    context = multiprocessing.get_context("spawn")
    count, over = context.Value("i", 0), context.Event()
    readers = [
        context.Process(target=_query, args=(dsn, run_id, list(cores), count, over), daemon=True)
        for _ in range(READERS if dsn else 0)
    ]
    for one in readers:
        one.start()
    try:
        while readers and count.value < READERS:
            time.sleep(0.01)
        yield count
    finally:
        over.set()
        for one in readers:
            one.join()


def _query(dsn: str, run_id: str, cores: list[int], count: Synchronized[int], over: Event) -> None:
    os.sched_setaffinity(0, cores)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set search_path = bench, bench_internal, bench_dashboard, public")
        for quantity in itertools.cycle(QUANTITIES):
            if over.is_set():
                return
            connection.execute(_CHART, (run_id, quantity))
            with count.get_lock():
                count.value += 1
