"""Charts and summaries over a week of some thirty million samples, against the same answer from the raw samples."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from psycopg import conninfo, pq, sql

from bench.config import Settings
from bench.errors import BenchError
from benchmarks import week
from sql import samples
from sql.aggregates import LEVELS, refresh
from sql.database import Connection, Database
from sql.flavour import Flavour, inspect

__all__ = ["measure"]

SERIES, POINTS = 16, 2000
QUANTITY = "gpu_sm_active"
CALLS = 40

# What someone who knows the schema writes without run_chart: by index, bounded in time, a series after the other.
_RAW = """
select x.at, s.device, x.mean, x.low, x.high
from (select series_id, device, runset_id, started_at, ended_at from run_sets join series using (place_id)
      where run_id = '{run}' and quantity = '{quantity}') s
cross join lateral (
    select {bin} as at, sum(value * dt) / sum(dt) as mean, min(value) as low, max(value) as high from samples
    where series_id = s.series_id and runset_id = s.runset_id and time >= '{start}' and time < '{stop}'
    group by 1) x
order by 1, 2
"""
_CHART = "select * from run_chart(%s, %s, %s, %s, %s, false, 40, null, %s)"


def measure() -> dict[str, float | str]:
    """Return milliseconds and ratios, in a database of its own on the server of the settings.

    By default that is an embedded server in a temporary home. A call's time is until its last row is here, undecoded.
    """
    configured = Settings.load()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        settings = configured if configured.dsn else Settings(home=Path(folder))
        with own_database(settings) as database, database.connect() as connection:
            cluster = load(database)
            settle(connection)
            figures: dict[str, float | str] = {
                "flavour": inspect(connection).flavour.value,
                "samples": _count(connection, "select sum(n)::float8 from samples_10m"),
                "series": _count(connection, "select count(*) from series"),
                "runs": _count(connection, "select count(*) from runs"),
                **timed(connection, cluster, CALLS),
            }
            if compress(connection, everything=True):
                figures |= {f"compressed_{name}": figure for name, figure in timed(connection, cluster, CALLS).items()}
            return figures


@contextlib.contextmanager
def own_database(settings: Settings) -> Iterator[Database]:
    """Yield a migrated database that is made beside that of the settings, and dropped in the end."""
    name = f"benchmark_{uuid.uuid4().hex[:12]}"
    identifier = sql.Identifier(name)
    server = Database(settings)
    server.hold()
    try:
        with server.connect() as admin:
            timescale = inspect(admin).flavour is Flavour.TIMESCALEDB
            admin.execute(sql.SQL("create database {}").format(identifier))
        try:
            own = dataclasses.replace(settings, dsn=conninfo.make_conninfo(server.dsn, dbname=name), read_dsn=None)
            with Database(own) as database, database.connect() as connection:
                if timescale and inspect(connection).flavour is not Flavour.TIMESCALEDB:
                    raise BenchError("template1 of this server has no extension timescaledb")
                yield database
        finally:
            with server.connect() as admin:
                admin.execute(sql.SQL("drop database {} with (force)").format(identifier))
    finally:
        server.close()


def load(database: Database, now: float | None = None) -> week.Cluster:
    """Write the week, half an hour in each COPY, as a collector that drains its spool does."""
    with database.connect() as connection:
        if inspect(connection).flavour is Flavour.TIMESCALEDB:
            # Policies are run by hand below, so that two benchmarks find the same.
            connection.execute(
                "select public.alter_job(job_id, scheduled => false) from timescaledb_information.jobs"
                " where hypertable_schema is not null"
            )
        cluster = week.build(connection, time.time() if now is None else now)
        for times, series, tags, values, seconds in week.rows(cluster, connection):
            with connection.transaction():
                samples.copy_samples(connection, times, series, tags, values, seconds)
        connection.execute("delete from retags")
        return cluster


def settle(connection: Connection) -> None:
    """Leave the database as its policies do: refreshed, compressed but for the newest days, statistics taken."""
    refresh(connection, time.time() - 2 * week.WEEK, time.time())
    compress(connection, everything=False)
    connection.execute("vacuum analyze")
    samples.summarise_ended_runs(connection, settled=60)


def compress(connection: Connection, *, everything: bool) -> bool:
    """Compress what the policies would have, or all; return whether there is anything to compress with."""
    if inspect(connection).flavour is not Flavour.TIMESCALEDB:
        return False
    after = {"samples": 1, "samples_10s": 2, "samples_1m": 3, "samples_10m": 8}
    for relation in ("samples", *(relation for relation, _ in LEVELS)):
        chunks = connection.execute(
            "select public.show_chunks(%s::regclass, older_than => now() - make_interval(days => %s))::text",
            (f"bench.{relation}", -9 if everything else after[relation]),
        ).fetchall()
        for (chunk,) in chunks:
            connection.execute("call public.convert_to_columnstore(%s::regclass, if_not_columnstore => true)", (chunk,))
    return True
