"""Readers read: whatever SQL a reading login sends, writing goes on, and nothing of it stays. In both flavours."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.write.sessions import SessionWatch
from hypergauge.sql.schema.migrate import migrate
from hypergauge.sql.schema.schemas import OURS
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.lock_waits import lock_waits
from hypergauge.sql.server.reader import cancel_long_reads
from tests.support.people import login
from tests.support.waiting import HUNG_SECONDS, wait_for
from tests.support.world import World

pytestmark = pytest.mark.flavours

LOCKS = ("bench.samples", "bench.refresh", "bench.pack", "bench.packer", "bench.import")


@pytest.fixture(params=["bench_reader", "bench_reader_own"])
def ann(database: Database, request: pytest.FixtureRequest) -> Iterator[str]:
    """A personal login in each reading role, made before the last migration."""
    with login(database.dsn, request.param) as name:
        migrate_again(database)
        yield name


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    with database.connect() as connection:
        yield World(database, tmp_path / "spool", connection)


def migrate_again(database: Database) -> None:
    """Create functions, views and rights anew, as the first command of another release does."""
    with database.session() as connection:
        connection.execute("delete from functions_digest")
        migrate(connection)


def connected(database: Database, user: str) -> psycopg.Connection:
    return psycopg.connect(database.dsn, user=user, autocommit=True)


def lift_the_limits(session: psycopg.Connection) -> None:
    session.execute("set statement_timeout = 0")
    session.execute("set default_transaction_read_only = off")


def test_no_lock_of_a_reader_stops_writing(world: World, ann: str) -> None:
    now = time.time()
    with connected(world.database, ann) as session:
        lift_the_limits(session)
        for name in LOCKS:
            with pytest.raises(errors.InsufficientPrivilege):
                session.execute("select pg_advisory_lock(hashtext(%s))", (name,))
        for name in ("retention", "pack_lock", "packer_lock", "import_lock"):
            for mode in ("share", "row share"):
                with pytest.raises(errors.InsufficientPrivilege), session.transaction():
                    session.execute(f"lock table bench_internal.{name} in {mode} mode".encode())
        session.execute("begin")
        relations = world.connection.execute(
            "select c.oid::regclass::text from pg_class c where relkind in ('r', 'v') and relnamespace = any(%s::regnamespace[])"
            " and has_table_privilege(%s, c.oid, 'select')",
            (list(OURS), ann),
        ).fetchall()
        for (relation,) in relations:
            session.execute(f"lock table {relation} in access share mode".encode())
        metrics = world.write(world.gauge("queue_length", [now + at for at in range(10)], [1.0] * 10))
        assert metrics.samples._value.get() == 10
        world.refresh()


def test_what_a_reader_leaves_open_is_ended(database: Database, ann: str) -> None:
    with database.connect() as collector, connected(database, ann) as idle, connected(database, ann) as busy:
        for session in (idle, busy):
            lift_the_limits(session)
        idle.execute("begin")
        idle.execute("select 1")
        with ThreadPoolExecutor(1) as pool:
            sleeping = pool.submit(busy.execute, "select pg_sleep(600)")
            assert cancel_long_reads(collector, 500) == 0
            ended = 0

            def all_ended() -> bool:
                nonlocal ended
                ended += cancel_long_reads(collector, 0.5)
                return ended >= 2

            wait_for(all_ended, "the end of a query and of a transaction")
            with pytest.raises(errors.QueryCanceled):
                sleeping.result(HUNG_SECONDS)
        with pytest.raises(psycopg.OperationalError):
            idle.execute("select 1")
        assert busy.execute("select 1").fetchone() == (1,)


def test_a_lock_of_a_reader_is_ended_where_the_server_allows_it(database: Database, ann: str) -> None:
    """A managed server without a superuser lets everybody take advisory locks."""
    with database.connect() as collector, connected(database, ann) as session:
        collector.execute("grant execute on function pg_advisory_lock(bigint) to public")
        session.execute("select pg_advisory_lock(hashtext('bench.refresh'))")
        wait_for(lambda: cancel_long_reads(collector, 0.2), "a session to be ended")
        free = "select pg_try_advisory_lock(hashtext('bench.refresh'))"
        wait_for(lambda: collector.execute(free).fetchone() == (True,), "the end of the session")


def test_sessions_of_writers_are_left_alone(database: Database) -> None:
    with (
        login(database.dsn, "bench_writer") as bob,
        database.connect() as collector,
        connected(database, bob) as session,
    ):
        session.execute("begin")
        session.execute("select 1")
        assert cancel_long_reads(collector, 0) == 0
        assert session.execute("select 1").fetchone() == (1,)


def test_what_waits_for_a_lock_is_counted_logged_and_shown(world: World, caplog: pytest.LogCaptureFixture) -> None:
    metrics = CollectorMetrics()
    watch = SessionWatch(world.database, metrics, longest_wait=0.2)
    with (
        login(world.database.dsn, "bench_writer") as bob,
        connected(world.database, bob) as holder,
        ThreadPoolExecutor(1) as pool,
    ):
        holder.execute("set application_name = 'notebook'")
        holder.execute("set search_path = bench_internal")
        holder.execute("begin")
        holder.execute("update retention set keep_raw = null")
        writing = pool.submit(world.write, world.gauge("queue_length", [time.time()], [1.0]))

        def counted() -> float:
            watch()
            return float(metrics.lock_waits._value.get())

        wait_for(counted, "a wait")
        watch()
        assert metrics.lock_waits._value.get() == 1, "each wait once"
        [wait] = lock_waits(world.connection, 0.2)
        assert (wait.program, wait.holder, wait.holder_program) == ("hypergauge", bob, "notebook")
        assert re.search(f"waited for a lock since .*; notebook of {bob} holds it: .*pg_terminate_backend", caplog.text)
        holder.execute("rollback")
        assert writing.result(HUNG_SECONDS).samples._value.get() == 1
        assert lock_waits(world.connection, 0) == []
    watch.close()


def test_a_reading_login_gets_the_limits_that_it_lacks(database: Database) -> None:
    with login(database.dsn, "bench_reader") as ann, login(database.dsn, "bench_reader_own") as eve:
        with database.session() as owner:
            owner.execute(sql.SQL("alter role {} set statement_timeout = '5min'").format(sql.Identifier(eve)))
            owner.execute(sql.SQL("alter role {} connection limit 3").format(sql.Identifier(eve)))
        migrate_again(database)
        for name, timeout, connections in ((ann, "30s", 20), (eve, "5min", 3)):
            with connected(database, name) as session:
                assert session.execute("show statement_timeout").fetchone() == (timeout,)
                with pytest.raises(errors.ReadOnlySqlTransaction):
                    session.execute("create table public.mine ()")
                limit = session.execute("select rolconnlimit from pg_roles where rolname = current_user").fetchone()
                assert limit == (connections,)


@pytest.mark.parametrize(
    "statement",
    [
        "insert into migrations (version, name, digest) values (99, 'x', 'x')",
        "update functions_digest set digest = 'x'",
        "delete from migrations",
    ],
)
def test_a_writer_leaves_the_record_of_the_schema(database: Database, statement: str) -> None:
    with database.connect() as writer:
        writer.execute("set role bench_writer")
        with pytest.raises(errors.InsufficientPrivilege):
            writer.execute(statement.encode())
