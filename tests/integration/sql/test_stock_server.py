"""Servers as a package installs them: as fast as ours, and their faults are reported."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from benchmarks.support.servers import installations
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.sql.maintenance.background import FailingJob, failing_jobs
from hypergauge.sql.maintenance.tuning import costly_settings
from hypergauge.sql.schema import extension
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.migrate import MigrationFailed
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.transfer.move.move import move
from tests.conftest import Command, NewFolder, own_database, running
from tests.support.data.backups import Empty
from tests.support.servers.databases import own_server
from tests.support.servers.settings import settings_to_change
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = pytest.mark.flavours

PORTAL = 'cannot drop portal "" while it is being set up'


def shown(connection: Connection, setting: str) -> str:
    row = connection.execute(f"show {setting}".encode()).fetchone()
    assert row is not None
    return str(row[0])


def test_whoever_connects_does_so_without_jit(empty: Empty, flavour: Flavour) -> None:
    database = empty(flavour)
    with psycopg.connect(database.dsn, autocommit=True) as before:
        assert shown(before, "jit") == "on", "as servers are set by default"
    with database, database.session() as owner:
        owner.execute("alter role bench_reader login")
        with psycopg.connect(database.dsn, user="bench_reader") as grafana:
            assert shown(grafana, "jit") == "off"


def test_our_connections_and_charts_do_without_jit_in_a_database_that_is_not_ours(database: Database) -> None:
    with database.session() as owner:
        owner.execute("alter role bench_reader login")
        owner.execute(f'alter database "{owner.info.dbname}" set jit = on'.encode())
    with database.session() as ours:
        assert shown(ours, "jit") == "off"
    with psycopg.connect(database.dsn, user="bench_reader") as grafana:
        assert shown(grafana, "jit") == "on"
        functions = grafana.execute(
            """
            select p.proname, coalesce('jit=off' = any(p.proconfig), false)
            from pg_proc p join pg_language l on l.oid = p.prolang
            where p.pronamespace::regnamespace::text like 'bench%' and l.lanname = 'plpgsql' and p.proretset
              and p.prosrc ~ 'return query execute'
            """
        ).fetchall()
        assert dict(functions) == dict.fromkeys(
            ("run_chart", "workload_chart", "tensor_chart", "newest", "series_steps"), True
        )


@pytest.fixture
def compiled_world(flavour: Flavour, complete_dsn: str, tmp_path: Path) -> Iterator[World]:
    """An empty world in each flavour, on a server that can compile."""
    with (
        own_database(complete_dsn, timescaledb=flavour is Flavour.TIMESCALEDB) as dsn,
        Database(Settings(home=tmp_path, dsn=dsn)) as database,
        database.connect() as connection,
    ):
        yield World(database, tmp_path / "spool", connection)


def test_a_chart_is_not_compiled(compiled_world: World) -> None:
    """With every query worth compiling to the server: what charts execute is not, and what others execute is."""
    world = compiled_world
    start = time.time() // 600 * 600 - 3600
    run = world.run(start, start + 600)
    world.write(world.gauge("node_load1", [start + at for at in range(600)], [1.0] * 600))
    compiled: list[str] = []
    options = "-cjit=on -cjit_above_cost=0 -csearch_path=bench,bench_internal,bench_dashboard,public"
    with psycopg.connect(world.database.dsn, autocommit=True, options=options) as connection:
        connection.add_notice_handler(lambda output: compiled.append(output.message_primary or ""))
        connection.execute("load 'auto_explain'")
        connection.execute(
            "set auto_explain.log_min_duration = 0; set auto_explain.log_analyze = on;"
            "set auto_explain.log_nested_statements = on; set client_min_messages = log"
        )
        connection.execute("select * from run_chart(array[%s], array['load'], null, null, 10000, false, 40)", (run,))
        plans = [plan for plan in compiled if "bounded_samples" in plan or "samples_10s" in plan]
        assert plans, "the chart's own statement"
        assert not [plan for plan in plans if "JIT:" in plan and "run_chart(" not in plan]
        compiled.clear()
        connection.execute("select count(*) from samples")
        assert [plan for plan in compiled if "JIT:" in plan]


def test_a_setting_that_costs_speed_is_named(
    complete_dsn: str, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with own_database(complete_dsn, timescaledb=True) as dsn:
        with Database(Settings(home=tmp_path, dsn=dsn)) as database:
            with database.session() as owner:
                assert costly_settings(owner) == []
                owner.execute(f'alter database "{owner.info.dbname}" set jit = on'.encode())
            with database.session() as connection:
                assert [setting.setting for setting in costly_settings(connection)] == ["jit"]
        monkeypatch.setenv("BENCH_DSN", dsn)
        monkeypatch.setenv("BENCH_HOME", str(tmp_path))
        assert settings_to_change(command) == {"jit"}


@pytest.fixture(scope="module")
def unloaded(new_folder: NewFolder) -> Iterator[str]:
    """A server whose TimescaleDB is installed, and not loaded; with room for few locks."""
    if not (found := installations()) or not any(one.timescaledb for one in found):
        pytest.skip("no TimescaleDB is installed with a PostgreSQL of this machine")
    one = next(one for one in found if one.timescaledb)
    few = "max_locks_per_transaction = 100\nmax_connections = 10\nfsync = off\n"  # enough for a migration alone
    with running(
        EmbeddedServer(new_folder() / "unloaded", binaries=one.binaries, major=one.major, configuration=few)
    ) as dsn:
        yield dsn


def outputs(dsn: str, home: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("BENCH_DSN", dsn)
    monkeypatch.setenv("BENCH_HOME", str(home))
    monkeypatch.setattr("hypergauge.cli.common.sys.stdout.isatty", lambda: False, raising=False)
    found = {one["what"]: one for one in json.loads(command("doctor", "--json")[1])}
    return [
        " ".join(command("db", "migrate")[1].split()),
        " ".join(command("db", "status")[1].split()),
        found["TimescaleDB"]["detail"] if "TimescaleDB" in found else "",
    ]


def test_timescaledb_that_is_not_loaded_is_missed_aloud(
    unloaded: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with own_database(unloaded, timescaledb=False) as dsn:
        with (
            caplog.at_level(logging.WARNING),
            Database(Settings(home=tmp_path, dsn=dsn)) as database,
            database.session() as connection,
        ):
            assert inspect(connection).flavour is Flavour.POSTGRESQL
            assert [setting.setting for setting in costly_settings(connection)] == ["max_locks_per_transaction"]
        assert "shared_preload_libraries" in caplog.text, "at its first use"
        for output in outputs(dsn, tmp_path, command, monkeypatch):
            assert "shared_preload_libraries" in output


def test_timescaledb_is_created_in_an_empty_database_by_its_owner(timescaledb_dsn: str, tmp_path: Path) -> None:
    with own_database(timescaledb_dsn, timescaledb=False) as dsn:
        name = conninfo.conninfo_to_dict(dsn)["dbname"]
        with psycopg.connect(timescaledb_dsn, autocommit=True) as admin:
            admin.execute(f'create role "{name}" login; '.encode())
            admin.execute(f'alter database "{name}" owner to "{name}"'.encode())
        owner = conninfo.make_conninfo(dsn, user=str(name))
        with Database(Settings(home=tmp_path, dsn=owner)) as database, database.session() as connection:
            assert inspect(connection).flavour is Flavour.TIMESCALEDB
            jit = connection.execute("select reset_val from pg_settings where name = 'jit'").fetchone()
            assert jit == ("off",)
    with psycopg.connect(timescaledb_dsn, autocommit=True) as admin:
        admin.execute(f'drop role "{name}"'.encode())


def test_tables_made_in_plain_postgresql_stay_so(
    timescaledb_dsn: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_database(timescaledb_dsn, timescaledb=False) as dsn:
        settings = Settings(home=tmp_path, dsn=dsn)
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("drop schema public")  # where the extension would go
            with Database(settings) as database, database.session() as connection:
                assert inspect(connection).flavour is Flavour.POSTGRESQL
            for output in outputs(dsn, tmp_path, command, monkeypatch):
                assert "works as plain PostgreSQL" in output
                assert "`bench db move DSN`" in output
            admin.execute("create schema public")
            admin.execute("create extension timescaledb")
        with pytest.raises(MigrationFailed, match="run `drop extension timescaledb`"):
            Database(settings).open()


def test_the_command_of_the_superuser_is_named_where_the_user_may_not_create_it(
    timescaledb_dsn: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_database(timescaledb_dsn, timescaledb=False) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        name = str(conninfo.conninfo_to_dict(dsn)["dbname"])
        admin.execute(f'create role "{name}" login; grant usage on schema public to "{name}"'.encode())
        user = Database(Settings(home=tmp_path, dsn=conninfo.make_conninfo(dsn, user=name)))
        with user.session() as connection:
            extension.create(connection)
            assert f'`psql -d {name} -c "create extension timescaledb"` as a superuser' in str(
                extension.advice(connection)
            )
        admin.execute(f'drop owned by "{name}"; drop role "{name}"'.encode())


def test_the_apache_license_is_named(
    apache_dsn: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_database(apache_dsn, timescaledb=False) as dsn:
        for output in [
            *outputs(dsn, tmp_path, command, monkeypatch),
            *outputs(apache_dsn, tmp_path, command, monkeypatch),
        ]:
            assert (
                "has the Apache license, so it lacks the columnstore (compression) and continuous aggregates" in output
            )
            assert "set timescaledb.license = 'timescale'" in output


def test_a_move_misses_timescaledb_before_it_writes(
    timescaledb_dsn: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_database(timescaledb_dsn, timescaledb=False) as dsn:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("drop schema public")  # where the extension would go
        target = Database(Settings(home=tmp_path, dsn=dsn))
        with pytest.raises(BadRequest, match=r"create extension timescaledb.*--plain moves into plain PostgreSQL"):
            move(database, target)
        with target.session() as connection:
            assert connection.execute("select to_regclass('bench.runs')").fetchone() == (None,)
        move(database, target, plain=True)


def test_the_embedded_server_misses_nothing(
    postgresql_dsn: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_database(postgresql_dsn, timescaledb=False) as dsn:
        for output in outputs(dsn, tmp_path, command, monkeypatch):
            assert "TimescaleDB" not in output


@pytest.fixture
def working_world(memory_folder: Path, tmp_path: Path) -> Iterator[World]:
    """An empty world whose server has one database, and so time for the jobs of it."""
    with (
        own_server(Flavour.TIMESCALEDB, memory_folder / f"jobs-{uuid.uuid4().hex[:8]}") as server,
        Database(Settings(home=tmp_path, dsn=server.dsn)) as database,
        database.connect() as connection,
    ):
        yield World(database, tmp_path / "spool", connection)


@pytest.mark.timescale
def test_background_jobs_that_fail_are_named(
    working_world: World, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = working_world
    connection, database = world.connection, world.database
    for name, output in (("unlucky", "no luck"), ("half_made", PORTAL)):
        connection.execute(
            f"create procedure bench.{name}(job integer, config jsonb) language plpgsql as"
            f" $$ begin raise exception '{output}'; end $$".encode()
        )
        connection.execute("select public.add_job(%s, interval '1 h')", (f"bench.{name}",))
    connection.execute(
        "create or replace procedure bench_internal.refresh(job integer default null, config jsonb default null)"
        " language plpgsql as $$ begin raise exception 'out of order'; end $$"
    )
    connection.execute(
        "select public.alter_job(job_id, scheduled => proc_name in ('unlucky', 'half_made', 'refresh'),"
        " retry_period => interval '10 ms', next_start => now()) from timescaledb_information.jobs"
    )

    def failing() -> dict[str, FailingJob]:
        return {job.name: job for job in failing_jobs(connection)}

    # Who sees no errors takes a job for failing after two of them.
    twice = "select count(*) from _timescaledb_internal.bgw_job_stat where consecutive_failures > 1"
    wait_for(lambda: connection.execute(twice).fetchone() == (3,), "each job to fail often enough")
    connection.execute("select _timescaledb_functions.stop_background_workers()")
    # Written only now, since the real refresh may run before its failing replacement.
    world.write(world.gauge("queue_length", [time.time() - 900 + at for at in range(60)], [1.0] * 60))
    found = failing()
    assert {name: (job.error, job.done) for name, job in found.items()} == {
        "unlucky": ("no luck", None), "half_made": (PORTAL, None), "refresh of aggregates": ("out of order", False),
    }  # fmt: skip
    assert all(job.since and abs(job.since.timestamp() - time.time()) < 300 for job in found.values())
    assert "a defect of these versions" in found["half_made"].remedy
    connection.execute("call public.refresh_continuous_aggregate('bench.samples_10s', null, now() - interval '1 min')")
    assert failing()["refresh of aggregates"].done, "by whomever it was done"
    monkeypatch.setenv("BENCH_DSN", database.dsn)
    monkeypatch.setenv("BENCH_HOME", str(database.settings.home))
    # The procedure is made anew by the next release alone: the functions' digest has not changed.
    status = " ".join(command("db", "status")[1].split())
    assert "unlucky (job" in status
    assert "no luck" in status
    assert PORTAL in status
    assert len([one for one in json.loads(command("doctor", "--json")[1]) if one["what"] == "background job"]) == 3
    connection.execute("alter role bench_reader_own login")
    with psycopg.connect(database.dsn, user="bench_reader_own", autocommit=True) as reader:
        assert {(job.name, job.error, job.done) for job in failing_jobs(reader)} == {
            ("unlucky", None, None), ("half_made", None, None), ("refresh of aggregates", None, None),
        }, "to whom neither errors nor samples are shown"  # fmt: skip
