"""The schema of the contract, in both flavours."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.migrate import MigrationFailed, migrate, migrations, newest, pending
from hypergauge.sql.server.database import Database

pytestmark = pytest.mark.flavours

RELATIONS = {
    "experiments": "experiment_id name source created_at",
    "workloads": "workload_id experiment_id workload status started_at ended_at",
    "runs": "run_id mlflow_run_id workload_id position attempt name owner status started_at ended_at exit_code reason "
    "command environment collocation params host keep simulated profilers",
    "placements": "run_id host gpu_uuid gpu_instance_id mig_uuid root_pid started_at ended_at",
    "metrics": "metric match quantity unit scale kind combine preference board help",
    "places": "place_id kind host gpu_uuid gpu_instance_id",
    "series": "series_id metric quantity place_id host device labels",
    "run_sets": "runset_id place_id run_id scope started_at ended_at",
    "batches": "source batch",
    "samples": "time series_id runset_id value dt",
    "samples_10s": "bucket series_id runset_id n seconds area min max",
    "samples_1m": "bucket series_id runset_id n seconds area min max",
    "samples_10m": "bucket series_id runset_id n seconds area min max",
    "run_samples": "experiment_id workload run_id position run quantity metric unit scope host device time elapsed value dt",
    "software_metrics": "run_id key step time elapsed value",
    "run_summary": "run_id quantity scope metric device n seconds mean min max p50 p95 total",
    "spans": "run_id span_id parent_id name kind step started_at ended_at pid thread",
    "rule_firings": "run_id rule started_at ended_at severity evidence",
    "highlights": "run_id started_at ended_at kind text weight",
    "rule_actions": "run_id rule started_at action severity evidence asked_at begun_at ended_at outcome detail",
    "run_quality": "run_id coverage interval_seconds simulated profiled shared throttled overhead",
    "jobs": "job executor native_id workload_id state reason failure host submitted_at ended_at",
    "accounting": "run_id step state elapsed_seconds cpu_seconds max_rss_bytes energy_joules",
    "owned_devices": "owned_id kind host boot_id home simulated holder_pid holder_created run_ids gpu_uuids profile start "
    "gpu_instance_id mig_uuid folder made_at",
    "targets": "target_id host listener url last_seen up",
    "announcements": "host listener url announced_at renewed_at",
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_relation_of_the_contract_answers(database: Database, relation: str) -> None:
    with database.session() as connection:
        columns = ", ".join(RELATIONS[relation].split())
        connection.execute(f"select {columns} from bench.{relation} limit 1".encode())


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
        connection.execute("drop schema bench cascade")
        connection.execute("drop schema bench_own cascade")
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
        connection.execute("update bench.migrations set digest = 'another' where version = 1")
        with pytest.raises(MigrationFailed, match=r"migration 1 \(schema\) is not the one that made this database"):
            pending(connection)


def test_a_newer_database_is_refused(database: Database, flavour: Flavour) -> None:
    with database.session() as connection:
        connection.execute("insert into bench.migrations (version, name, digest) values (999, 'future', 'x')")
        with pytest.raises(MigrationFailed, match=f"at version 999, this release knows {newest()}:"):
            pending(connection)


def test_a_function_that_does_not_fit_is_named_and_nothing_is_changed(database: Database) -> None:
    with database.session() as connection:
        connection.execute(
            "drop function bench.some_of(text[]) cascade;"
            "create function bench.some_of(p_words text[]) returns integer language sql as 'select 1';"
            "delete from bench.functions_digest"
        )
        with pytest.raises(
            MigrationFailed,
            match=r"^sql/schema/functions/63_notices\.sql does not fit what is in the database: cannot change return type of existing "
            r"function\. Use DROP FUNCTION some_of\(text\[\]\) first\.; nothing was changed$",
        ):
            migrate(connection)
        assert connection.execute("select bench.some_of('{}')").fetchone() == (1,)


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
