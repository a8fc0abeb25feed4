"""Rights of each role, in both flavours."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from hypergauge.core.config.settings import Settings
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.reader import cancel_long_reads
from tests.support.waiting import HUNG_SECONDS, wait_for
from tests.support.world import LEVELS, World

pytestmark = pytest.mark.flavours


@pytest.fixture
def writer_world(database: Database, tmp_path: Path) -> World:
    """A world whose collector connects as `bench_writer`."""
    dsn = conninfo.make_conninfo(database.dsn, options="-crole=bench_writer")
    as_writer = Database(Settings(home=tmp_path, dsn=dsn)).open()
    return World(as_writer, tmp_path / "spool", database.connect())


def test_a_viewers_long_query_is_canceled_from_outside(writer_world: World, database: Database) -> None:
    with writer_world.connection as owner, writer_world.database.connect() as writer:
        owner.execute("alter role bench_reader login")
        with (
            psycopg.connect(database.dsn, user="bench_reader", autocommit=True) as viewer,
            ThreadPoolExecutor(1) as pool,
        ):
            viewer.execute("set statement_timeout = 0")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                viewer.execute("select cancel_long_reads('0 s')")
            pending = pool.submit(viewer.execute, "select pg_sleep(60)")
            assert cancel_long_reads(writer, 50) == 0
            wait_for(lambda: cancel_long_reads(writer, 0.5), "a query of half a second")
            with pytest.raises(psycopg.errors.QueryCanceled):
                pending.result(HUNG_SECONDS)
            assert viewer.execute("select 1").fetchone() == (1,), "its connection stays"


def test_a_writer_need_not_be_the_owner(writer_world: World) -> None:
    world = writer_world
    with world.connection, world.database.connect() as connection:
        assert connection.execute("select current_user").fetchone() == ("bench_writer",)
        start = time.time() // 600 * 600 - 3 * 86_400
        world.write(world.gauge("queue_length", [start + at for at in range(300)], [1.0] * 300))
        run_id = world.run(start + 100, start + 200)
        assert world.write().retagged._value.get() == 100
        world.connection.execute("update retention set keep_raw = '1 day'")
        world.connection.execute("call maintain()")
        world.write(world.gauge("queue_length", [start + at for at in range(300)], [2.0] * 300))
        world.refresh()
        for relation in LEVELS:
            assert connection.execute(f"select sum(n) from {relation}".encode()).fetchone() == (600,), relation
        assert connection.execute("select sum(n) from run_summary where run_id = %s", (run_id,)).fetchone() is not None
