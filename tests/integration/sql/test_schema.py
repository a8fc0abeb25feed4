"""The schema of the contract, in both flavours."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.migrate import MigrationFailed, migrate, migrations, newest, pending
from hypergauge.sql.server.database import Database
from hypergauge.sql.transfer.backup import backup

pytestmark = pytest.mark.flavours


def test_run_chart_answers_at_every_level(database: Database) -> None:
    with database.session() as connection:
        for step_ms in (1, 1000, 10_000, 60_000, 600_000, 3_600_000):
            for aligned in (True, False):
                chart = connection.execute(
                    "select time, run, series, quantity, scope, value, low, high"
                    " from run_chart(array['x'], array['cpu_usage'], null, null, %s, %s, 40)",
                    (step_ms, aligned),
                )
                assert chart.fetchall() == []


def test_migrations_run_once_however_many_start_at_a_time(database: Database, flavour: Flavour) -> None:
    with database.session() as connection:
        connection.execute("drop schema bench, bench_internal, bench_dashboard, bench_own cascade")
    applied: list[int] = []

    def start() -> None:
        with database.connect() as connection:
            applied.append(len(migrate(connection)))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(applied) == [0, 0, 0, len(migrations(flavour))]


def test_a_changed_migration_is_refused(database: Database) -> None:
    with database.session() as connection:
        connection.execute("update bench_internal.migrations set digest = 'another' where version = 1")
        with pytest.raises(MigrationFailed, match=r"migration 1 \(schema\)"):
            pending(connection)


def test_a_database_of_a_development_version_is_refused_with_what_to_do(database: Database, tmp_path: Path) -> None:
    with database.session() as connection:
        connection.execute("alter table bench_internal.migrations set schema bench")
        for query in (pending, migrate):
            with pytest.raises(
                MigrationFailed, match=r"development version.*`bench db backup FILE`.*`bench db restore FILE`"
            ):
                query(connection)
    with pytest.raises(MigrationFailed, match="development version"):
        backup(database, tmp_path / "file")


def test_a_newer_database_is_refused(database: Database, flavour: Flavour) -> None:
    with database.session() as connection:
        connection.execute("insert into bench_internal.migrations (version, name, digest) values (999, 'future', 'x')")
        with pytest.raises(MigrationFailed, match=f"at version 999, this release knows {newest()}:"):
            pending(connection)


def test_not_a_number_is_never_stored(database: Database) -> None:
    with database.session() as connection:
        for value in ("NaN", "Infinity", "-Infinity"):
            with pytest.raises(Exception, match="samples_value_check"), connection.transaction():
                connection.execute("insert into samples values (now(), 1, 0, %s, 1)", (value,))
        connection.execute("insert into samples values (now(), 1, 0, null, 1)")


def test_the_apache_build_of_timescaledb_counts_as_postgresql(apache_dsn: str) -> None:
    with Database(Settings(home=Path(), dsn=apache_dsn)) as database, database.session() as connection:
        server = inspect(connection)
        assert server.flavour is Flavour.POSTGRESQL
        assert "the Apache build has no continuous aggregates" in server.describe()
        assert connection.execute("select relkind from pg_class where relname = 'samples_10s'").fetchone() == ("v",)
