"""Packing of samples: every reader finds the same before and after it, and so does every change of tags and runs."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hypergauge.collector.write.packer import Packer
from hypergauge.core.config.settings import Settings
from hypergauge.sql.ingest.samples import Columns, copy_samples
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.runs.run_annotations import remove_runs
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server.database import Database
from tests.conftest import NewFolder
from tests.support.servers.databases import own_server
from tests.support.waiting import wait_for
from tests.support.world import LEVELS, World

pytestmark = pytest.mark.flavours

HOUR = 3600.0
LARGEST, DENORMAL = sys.float_info.max, 5e-324
VALUES = st.one_of(
    st.none(),
    st.sampled_from([0.0, 1.0, 0.1, -3.5, 16_777_217.0, 1e300, -1e-300, 3.4e38, LARGEST, -LARGEST, DENORMAL]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)


def packs(world: World) -> bool:
    """Return whether the flavour packs: the columnstore of TimescaleDB needs none of it."""
    return inspect(world.connection).flavour is Flavour.POSTGRESQL


def samples(world: World) -> list[Any]:
    return world.connection.execute("select * from samples order by series_id, time, value, dt, runset_id").fetchall()


def buckets(world: World) -> dict[str, Any]:
    """Return the rows of each aggregate: sums only, since a bucket may have several rows."""
    return {
        level: world.connection.execute(
            f"select bucket, series_id, runset_id, sum(n), coalesce(sum(seconds), 'NaN'),"
            f" coalesce(sum(area), 'NaN'), coalesce(min(min), 'NaN'), coalesce(max(max), 'NaN') from {level}"
            " group by 1, 2, 3 order by 2, 1, 3".encode()
        ).fetchall()
        for level in LEVELS
    }


def agree(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for level, rows in wanted.items():
        assert [row[:4] for row in found[level]] == [row[:4] for row in rows], level
        for mine, theirs in zip(found[level], rows, strict=True):
            seconds, _, low, high = theirs[4:]
            rounding = 1e-12 * max(abs(low), abs(high)) * seconds  # of the area, a sum in another order
            assert mine[4:] == pytest.approx(theirs[4:], rel=1e-12, abs=rounding, nan_ok=True), level


def rows_left(connection: psycopg.Connection) -> int:
    row = connection.execute("select count(*) from bench_internal.unpacked_samples").fetchone()
    assert row is not None
    return int(row[0])


def an_hour(world: World, metric: str = "node_load1", *, start: float, value: float = 1.0) -> None:
    world.write(
        world.gauge(metric, [start + at for at in range(int(HOUR))], [value + at % 7 for at in range(int(HOUR))])
    )


@pytest.fixture
def start() -> float:
    """Start of an hour that closed two hours ago."""
    return time.time() // HOUR * HOUR - 3 * HOUR


@settings(max_examples=20, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    written=st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 2), st.floats(0, 3 * HOUR).map(lambda at: round(at, 6)), VALUES,
                  st.sampled_from([0.0, 0.5, 1.0, 30.0])),
        max_size=60,
    ),
    dense=st.booleans(),
)  # fmt: skip
def test_any_samples_are_read_as_they_were_written(
    world: World, written: list[tuple[int, int, float, float | None, float]], dense: bool
) -> None:
    origin = 1_700_000_000 // HOUR * HOUR
    rows = [(origin + at, series, runset, value, dt) for series, runset, at, value, dt in written]
    if dense:
        rows += [(origin + at, 4, 1, (at * 37) % 100 / 100, 1.0) for at in range(1, 2000)]
    with world.connection.transaction(force_rollback=True):
        times, series_ids, runset_ids, values, dts = zip(*rows, strict=True) if rows else [()] * 5
        copy_samples(
            world.connection,
            Columns(
                np.array(times, float),
                np.array(series_ids, np.int32),
                np.array(runset_ids, np.int32),
                np.array(values, float),
                np.array(dts, np.float32),
            ),
        )
        before, aggregated = samples(world), buckets(world)
        if packs(world):
            packed = world.connection.execute("select pack_series(array[1, 2, 3, 4], 'infinity')").fetchone()
            assert packed == (len(rows),)
            assert rows_left(world.connection) == 0
        assert samples(world) == before
        agree(buckets(world), aggregated)


def test_a_value_that_no_aggregate_can_add_up_is_missing_and_the_others_are_aggregated(
    world: World, start: float
) -> None:
    given = [1.0, LARGEST, -LARGEST, DENORMAL, 3.0]
    world.write(world.gauge("node_load1", [start + at for at in range(len(given))], given))
    for _ in ("as written", "packed"):
        assert [row[3] for row in samples(world)] == [1.0, None, None, 0.0, 3.0]
        totals = world.connection.execute("select sum(n), sum(area), max(max) from samples_1m").fetchone()
        assert totals == (5, 4.0, 3.0)
        world.refresh()


def test_an_hour_is_packed_once_it_has_closed(world: World, start: float) -> None:
    an_hour(world, start=start)
    before, aggregated = samples(world), buckets(world)
    at = datetime.fromtimestamp(start + HOUR, UTC)
    packer = Packer(world.database, now=lambda: at.replace(minute=9, second=59))
    assert packer() == pytest.approx(1)
    if packs(world):
        assert rows_left(world.connection) == HOUR, "the hour may still have late samples"
    packer = Packer(world.database, now=lambda: at.replace(minute=10))
    assert packer() == pytest.approx(HOUR)
    if packs(world):
        assert rows_left(world.connection) == 0
    assert samples(world) == before
    agree(buckets(world), aggregated)


def test_late_samples_of_a_packed_hour_add_up(world: World, start: float) -> None:
    an_hour(world, start=start)
    world.refresh()
    world.write(world.gauge("node_load1", [start + 10.5], [99.0]))
    aggregates.refresh(world.connection)
    for _ in ("as written", "packed"):
        row = world.connection.execute("select sum(n), max(max) from samples_1m").fetchone()
        assert row == (HOUR + 1, 99.0)
        assert len(samples(world)) == HOUR + 1
        world.refresh()


def test_a_run_that_becomes_known_later_gets_its_packed_samples(world: World, start: float) -> None:
    an_hour(world, start=start)
    world.refresh()
    run = world.run(start + 600, start + 1200.5)
    world.write()
    for _ in ("as written", "packed"):
        row = world.connection.execute(
            "select count(*), min(time), max(time) from run_samples where run_id = %s", (run,)
        ).fetchone()
        assert row is not None
        # The sample that reaches across the end of the run is a part of both sides for a counter alone.
        assert (row[0], row[1].timestamp(), row[2].timestamp()) == (601, start + 600, start + 1200)
        assert len(samples(world)) == HOUR
        world.refresh()
    if packs(world):
        assert rows_left(world.connection) == 0


def test_a_removed_run_takes_its_packed_samples_along(world: World, start: float) -> None:
    run = world.run(start + 600, start + 1200)
    an_hour(world, start=start)
    world.write(
        world.gauge(
            "bench_process_threads", [start + 600 + at for at in range(600)], [4.0] * 600, {"run_id": run}, "process"
        )
    )
    world.refresh()
    assert remove_runs(world.connection, [run]) == 600 + 600
    assert len(samples(world)) == HOUR - 600
    for level, rows in buckets(world).items():
        assert sum(row[3] for row in rows) == HOUR - 600, level
    aggregates.maintain(world.connection)
    if packs(world):
        row = world.connection.execute(
            "select count(*) from packed_scrapes where scrapes_id not in (select scrapes_id from packed_samples)"
        ).fetchone()
        assert row == (0,)


def test_retention_deletes_packed_samples_and_keeps_their_aggregates(world: World) -> None:
    old = time.time() // 86_400 * 86_400 - 40 * 86_400
    kept = world.run(old, old + HOUR)
    an_hour(world, start=old)
    an_hour(world, start=old + 86_400)
    world.connection.execute("update runs set keep = true where run_id = %s", (kept,))
    world.refresh()
    aggregated = buckets(world)
    aggregates.keep_raw(world.connection, 30)
    for _ in range(2):
        aggregates.maintain(world.connection)
        assert len(samples(world)) == HOUR, "those of the protected run are left"
        agree(buckets(world), aggregated)


@pytest.mark.slow
def test_a_bulk_of_old_samples_leaves_no_large_index(world: World) -> None:
    """The owner makes the index again; a writer may not, and packs all the same."""
    if not packs(world):
        pytest.skip("chunks have indexes of their own")
    connection = world.connection
    for role in ("bench_writer", "postgres"):
        connection.execute(
            "insert into unpacked_samples select to_timestamp(1700000000 + at), series, 0, 1, 1"
            " from generate_series(1, 100) series, generate_series(1, 5000) at"
        )
        connection.execute(f"set role {role}".encode())
        connection.execute("call pack('infinity')")
        connection.execute("reset role")
        assert rows_left(connection) == 0
        row = connection.execute("select pg_relation_size('bench_internal.samples_series') > 8192").fetchone()
        assert row == (role == "bench_writer",)


def test_packing_rests_between_its_transactions(world: World) -> None:
    """While the session rests, its first part is committed. Tags may change, but no other session packs."""
    if not packs(world):
        pytest.skip("the columnstore packs")
    world.connection.execute(
        "insert into unpacked_samples select to_timestamp(1700000000 + at), series, 0, at, 1"
        " from generate_series(1, 2) series, generate_series(1, 100) at"
    )
    packing = threading.Thread(target=pack_with_long_rests, args=(world.database,))
    packing.start()
    resting = "select pid from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
    wait_for(lambda: world.connection.execute(resting).fetchone(), "a rest")
    assert rows_left(world.connection) == 100
    with world.connection.transaction():
        world.connection.execute("lock table bench_internal.pack_lock in share mode nowait")
    with pytest.raises(psycopg.errors.LockNotAvailable), world.connection.transaction():
        world.connection.execute("lock table bench_internal.packer_lock in share mode nowait")
    world.connection.execute(f"select pg_cancel_backend(pid) from ({resting}) x".encode())
    packing.join()


def pack_with_long_rests(database: Database) -> None:
    with contextlib.suppress(psycopg.errors.QueryCanceled), database.connect() as connection:
        connection.execute("call pack('infinity', 100, 1e6)")


SUMS = "select count(*), sum((value * 10)::bigint), sum(series_id * runset_id), sum(extract(epoch from time)) from bench.samples"


def one_row(database: Database, query: str) -> tuple[Any, ...]:
    with database.session() as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row


def count_packed(database: Database) -> int:
    return int(one_row(database, "select coalesce(sum(n), 0) from bench_internal.packed_samples")[0])


def wait_for_more(database: Database, packed: int) -> None:
    wait_for(lambda: count_packed(database) > packed, "packing")


def pack_until_the_server_ends(database: Database) -> None:
    with contextlib.suppress(psycopg.OperationalError), database.connect() as connection:
        connection.execute("call pack('infinity', 20000)")


@pytest.mark.slow
def test_a_crash_while_packing_loses_and_doubles_nothing(new_folder: NewFolder) -> None:
    with own_server(Flavour.POSTGRESQL, new_folder() / "packing") as server:
        database = Database(Settings(home=server.folder, dsn=server.dsn)).open()
        with database.session() as connection:
            connection.execute(
                """
                insert into bench_internal.unpacked_samples (time, series_id, runset_id, value, dt)
                select to_timestamp(1700002800 + at), series, at / 5000, (at * series) % 1000 / 10.0, 1
                from generate_series(1, 100) series, generate_series(1, 7200) at
                """
            )
        wanted = one_row(database, SUMS)
        packed = 0
        for _ in range(3):
            packing = threading.Thread(target=pack_until_the_server_ends, args=(database,))
            packing.start()
            wait_for_more(database, packed)
            server.stop("immediate")
            packing.join()
            server.start()
            before, packed = packed, count_packed(database)
            assert before < packed < wanted[0]
            assert one_row(database, SUMS) == wanted
        pack_until_the_server_ends(database)
        assert one_row(database, SUMS) == wanted
        assert one_row(database, "select count(*) from bench_internal.unpacked_samples") == (0,)
