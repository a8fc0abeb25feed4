"""Restores: everything, between the flavours, or nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
import zipfile
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.schema import migrate
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.transfer.archive import BadBackup, opened
from hypergauge.sql.transfer.backup import backup
from hypergauge.sql.transfer.restore import restore
from tests.support.data.backups import OTHER, Empty, alone, contents, rewritten, schema_is_there, start, sums
from tests.support.home import listen_to_interrupts
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = pytest.mark.flavours


def test_a_round_trip_through_the_other_flavour_brings_everything_back(
    full: World, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    there, back = empty(OTHER[flavour]), empty(flavour)
    backup(full.database, tmp_path / "one.backup")
    restore(there, tmp_path / "one.backup")
    backup(there, tmp_path / "two.backup")
    restore(back, tmp_path / "two.backup")
    expected, added = contents(full.connection), sums(full.connection)
    summary = full.connection.execute(
        "select * from run_summary order by run_id, quantity, scope, metric, device"
    ).fetchall()
    assert len(summary) > 20
    assert expected["bench.samples"][0][1] == 3 * (1200 + 400 + 900)
    for database in (there, back):
        with database.session() as connection:
            assert contents(connection) == expected
            assert sums(connection) == added
            assert (
                connection.execute(
                    "select * from run_summary order by run_id, quantity, scope, metric, device"
                ).fetchall()
                == summary
            )
            # Identities continue where they were, and placements make run sets again.
            other = World(database, tmp_path / uuid.uuid4().hex, connection)
            other.run(time.time(), experiment=21)
            other.write(other.gauge("node_load1", [time.time()], [1.0]))
            assert connection.execute(
                "select count(*) from samples where runset_id > 0 and time > now() - interval '1 min'"
            ).fetchone() == (1,)


@pytest.mark.slow
def test_mlflow_comes_along_whatever_tables_it_has(
    database: Database, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    script = """
import sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
experiment = client.create_experiment("digits", artifact_location="file:///nowhere")
run = client.create_run(experiment).info.run_id
for step in range(5):
    client.log_metric(run, "loss", 1 / (step + 1), step=step)
client.log_param(run, "lr", "0.1")
client.set_terminated(run)
"""
    with database.session() as connection:
        connection.execute("create schema mlflow")
        url = database.sqlalchemy_url("mlflow")
        subprocess.run([sys.executable, "-c", script, url], check=True, capture_output=True)
        expected = contents(connection)
        columns = connection.execute(COLUMNS).fetchall()
    assert expected["mlflow.metrics"][0][1] == 5
    backup(database, tmp_path / "file")
    there = empty(OTHER[flavour])
    restore(there, tmp_path / "file")
    with there.session() as connection:
        assert contents(connection) == expected
        assert connection.execute(COLUMNS).fetchall() == columns
    # MLflow itself continues with it, and numbers its experiments on.
    more = "import sys; from mlflow import MlflowClient; print(MlflowClient(sys.argv[1]).create_experiment('more'))"
    done = subprocess.run(
        [sys.executable, "-c", more, there.sqlalchemy_url("mlflow")], check=True, capture_output=True, text=True
    )
    assert done.stdout.split()[-1] == "2"
    with there.session() as connection:
        connection.execute("drop schema bench, bench_internal, bench_dashboard, bench_own cascade")
    with pytest.raises(BadRequest, match=r"mlflow.runs has rows"):
        restore(there, tmp_path / "file")


COLUMNS = """
    select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns
    where table_schema = 'mlflow' order by 1, 2
"""


def test_a_file_that_is_not_whole_is_refused(file: Path, empty: Empty, tmp_path: Path) -> None:
    whole = file.read_bytes()
    there = empty(Flavour.POSTGRESQL)
    bad = tmp_path / "bad"
    middle = len(whole) // 2
    damaged = whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 8]) + whole[middle + 8 :]
    cases = {
        b"": "not a backup, or cut off",
        b"Experiment,Workload\n1,1\n": "not a backup, or cut off",
        whole[:-1]: "not a backup, or cut off|not a whole backup|damaged",
        whole[:middle]: "not a backup, or cut off",
        damaged: "damaged",
    }
    for content, message in cases.items():
        bad.write_bytes(content)
        with pytest.raises(BadBackup, match=message):
            restore(there, bad)
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("holiday.jpg", b"beach")
    with pytest.raises(BadBackup, match="not a whole backup of hypergauge"):
        restore(there, bad)
    assert not schema_is_there(there)


def test_a_newer_backup_is_refused(file: Path, empty: Empty) -> None:
    there = empty(Flavour.POSTGRESQL)
    with pytest.raises(BadBackup, match=r"it is of schema version 999 \(hypergauge .*update hypergauge"):
        restore(there, rewritten(file, schema_version=999))
    with pytest.raises(BadBackup, match="its format is 3, this release reads 2: update hypergauge"):
        restore(there, rewritten(file, format=3))


def test_rows_that_the_manifest_does_not_know_roll_everything_back(file: Path, empty: Empty) -> None:
    with opened(file) as (_, manifest):
        tables = [
            {"schema": one.schema, "name": one.name, "columns": one.columns, "rows": one.rows + (one.name == "samples")}
            for one in manifest.tables
        ]
    there = empty(Flavour.POSTGRESQL)
    with pytest.raises(BenchError, match=r"7500 .*7501"):
        restore(there, rewritten(file, tables=tables))
    assert not schema_is_there(there)


def test_an_older_backup_is_migrated(
    file: Path, flavour: Flavour, empty: Empty, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrate.migrations

    def with_one_more(flavour: Flavour) -> list[migrate.Migration]:
        text = "alter table runs add column color text not null default 'red'; update runs set color = upper(name);"
        return [*known(flavour), migrate.Migration(999, "color", text)]

    monkeypatch.setattr(migrate, "migrations", with_one_more)
    there = empty(flavour)
    with there.session() as connection:
        migrate.migrate(connection)  # a command has been here before
    restore(there, file)
    with there.session() as connection:
        row = connection.execute("select count(*), count(*) filter (where color = upper(name)) from runs").fetchone()
        assert row == (6, 6)
        assert max(migrate.applied(connection)) == 999


def test_only_an_empty_and_idle_database_is_restored_into(full: World, file: Path, empty: Empty) -> None:
    with pytest.raises(BadRequest, match="1 other connection to this database"):
        restore(full.database, file)
    there = empty(Flavour.POSTGRESQL)
    restore(there, file)
    with pytest.raises(BadRequest, match=r"bench\.runs.*BENCH_HOME"):
        restore(there, file)
    theirs = empty(Flavour.POSTGRESQL)
    with theirs.open().session() as connection:
        connection.execute("create view public.mine as select * from bench.run_summary")
    with pytest.raises(BadRequest, match=r"public\.mine"):
        restore(theirs, file)


def test_a_table_of_another_owner_is_named_and_left_out(full: World, empty: Empty, tmp_path: Path) -> None:
    full.connection.execute("create table mine (id integer generated always as identity, word text)")
    full.connection.execute("insert into mine (word) values ('a')")
    backup(full.database, tmp_path / "file")
    there = empty(Flavour.POSTGRESQL)
    messages: list[str] = []
    restore(there, tmp_path / "file", messages.append)
    assert "left out: bench.mine (1 rows) is not a table of hypergauge's" in messages
    with there.session() as connection:
        assert connection.execute("select count(*) from samples").fetchone() == (7500,)


def is_dropped(connection: Connection) -> bool:
    """Drop the schema; a job of TimescaleDB may be in the way at this moment."""
    try:
        connection.execute("drop schema bench, bench_internal, bench_dashboard, bench_own cascade")
    except psycopg.errors.DeadlockDetected:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_restore_leaves_nothing(
    file: Path, flavour: Flavour, empty: Empty, with_signal: signal.Signals
) -> None:
    there = empty(flavour)
    with there.connect() as connection:
        migrate.migrate(connection)  # makes the roles
        wait_for(lambda: is_dropped(connection), "the schema's end")
    name = conninfo.conninfo_to_dict(there.dsn)["dbname"]
    # Another's change of a role keeps the restore from its last step, when all has been copied and nothing committed.
    elsewhere = conninfo.make_conninfo(there.dsn, dbname="postgres")
    with psycopg.connect(elsewhere) as other, psycopg.connect(elsewhere, autocommit=True) as watcher:
        other.execute("alter role bench_owner set search_path = bench, public")
        with start(there, "restore", file, preexec_fn=listen_to_interrupts) as process:
            wait_for(lambda: watcher.execute(WAITING, (name,)).fetchone(), "a waiting restore")
            process.send_signal(with_signal)
        assert process.returncode != 0
        other.rollback()
    wait_for(lambda: alone(there), "the end of the killed restore")
    assert not schema_is_there(there)
    restore(there, file)
    with there.session() as connection:
        assert connection.execute("select count(*) from samples").fetchone() == (7500,)


WAITING = "select 1 from pg_stat_activity where datname = %s and wait_event_type = 'Lock'"


@pytest.mark.slow
def test_the_command_reports_what_it_did(full: World, empty: Empty, tmp_path: Path) -> None:
    there = empty(Flavour.POSTGRESQL)
    with start(full.database, "backup", tmp_path / "file") as process:
        _, messages = process.communicate()
    assert "6 runs, 7,500 samples; schema version" in messages
    with start(there, "restore", tmp_path / "file") as process:
        _, messages = process.communicate()
    assert "6 runs, 7,500 samples" in messages
    with start(there, "restore", tmp_path / "file") as process:
        _, messages = process.communicate()
    assert process.returncode == 2
    assert "not empty" in messages


def test_restored_samples_are_compressed(full: World, file: Path, empty: Empty) -> None:
    there = empty(Flavour.TIMESCALEDB)
    restore(there, file)
    with there.session() as connection:
        row = connection.execute(
            "select count(*), count(*) filter (where is_compressed) from timescaledb_information.chunks"
            " where hypertable_name = 'samples'"
        ).fetchone()
    assert row is not None
    assert row[0] == row[1] > 0


def test_what_retention_has_left_comes_back_too(full: World, flavour: Flavour, empty: Empty, tmp_path: Path) -> None:
    kept = full.connection.execute("select run_id from runs where position = 1 order by started_at limit 1").fetchone()
    full.connection.execute("update runs set keep = true where run_id = %s", kept)
    aggregates.keep_raw(full.connection, 1)
    aggregates.maintain(full.connection)
    start = time.time() - 5 * 86_400
    full.write(
        full.gauge("node_load1", [start + at for at in range(60)], [3.0] * 60)
    )  # behind the raw cutoff, in raw still
    there, back = empty(OTHER[flavour]), empty(flavour)
    backup(full.database, tmp_path / "one.backup")
    restore(there, tmp_path / "one.backup")
    backup(there, tmp_path / "two.backup")
    restore(back, tmp_path / "two.backup")
    full.refresh()
    expected, added = contents(full.connection), sums(full.connection)
    assert sum(float(str(row[2])) for row in added["samples_10m"]) == 3 * (1200 + 400 + 900) + 60
    for database in (there, back):
        with database.session() as connection:
            assert sums(connection) == added
            aggregates.maintain(connection)
            assert sums(connection) == added
            assert contents(connection)["bench.run_sets"] == expected["bench.run_sets"]
            assert (
                contents(connection)["bench_internal.stored_summaries"] == expected["bench_internal.stored_summaries"]
            )
