"""Backup and restore: everything, between the flavours, or nothing at all."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo, sql

from bench.config import Settings
from bench.errors import BadRequest, BenchError, NoData
from sql import aggregates, migrate, samples
from sql.archive import BadBackup, opened
from sql.backup import BELOW_EDGE, LEFT_OUT, backup
from sql.database import Connection, Database
from sql.flavour import Flavour
from sql.restore import restore
from tests.conftest import own_database
from tests.e2e.home import listen_to_interrupts, wait_for
from tests.world import LEVELS, World

OTHER = {Flavour.POSTGRESQL: Flavour.TIMESCALEDB, Flavour.TIMESCALEDB: Flavour.POSTGRESQL}
SUMS = "sum(n), sum(seconds), sum(area), min(min), max(max), count(*)"

Empty = Callable[[Flavour], Database]


@pytest.fixture
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Empty]:
    """Give empty databases, without a schema, of either flavour."""
    with ExitStack() as stack:

        def make(flavour: Flavour) -> Database:
            server = request.getfixturevalue(f"{flavour}_dsn")
            dsn = stack.enter_context(own_database(server, timescaledb=flavour is Flavour.TIMESCALEDB))
            return Database(Settings(home=tmp_path, dsn=dsn))

        yield make


@pytest.fixture
def full(world: World) -> World:
    """A world with runs that share a host and a GPU, samples in several days, late ones, and nulls."""
    now = time.time() // 600 * 600
    for day in (9, 2, 0):
        start = now - day * 86_400 - 3600
        run = world.run(start, start + 900, workload=day + 1, gpu="GPU-1")
        world.run(start + 300, start + 900, workload=day + 1, position=2, gpu="GPU-1", name="wide ü \t \\ 'quoted'")
        times = [start + at for at in range(1200)]
        world.write(
            world.gauge("node_load1", times, [at % 7 + 0.1 for at in range(1200)]),
            world.gauge("DCGM_FI_DEV_POWER_USAGE", times[::3], [250.3] * 400, {"UUID": "GPU-1"}),
            world.gauge("bench_process_threads", times[:900], [4.0] * 450 + [float("nan")] * 450, {"run_id": run}),
        )
        world.connection.execute("select summarise(run_id) from runs")
        world.connection.execute(
            "insert into software_metrics select %s, 'loss', n, to_timestamp(%s + n), n, 1 / n::float8"
            " from generate_series(1, 50) n",
            (run, start),
        )
    world.refresh()
    samples.claim_batches(world.connection, "f" * 32, [7, 8, 9])
    return world


def contents(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of every table that is to be in a backup, as text."""
    tables = connection.execute(
        "select schemaname, tablename from pg_tables where schemaname in ('bench', 'mlflow') order by 1, 2"
    ).fetchall()
    answer = {}
    for schema, table in tables:
        if table not in LEFT_OUT | BELOW_EDGE:
            name = sql.Identifier(schema, table)
            row = sql.SQL("select md5(string_agg(md5(t::text), '' order by t::text)), count(*) from {} t").format(name)
            answer[f"{schema}.{table}"] = connection.execute(row).fetchall()
    return answer


def sums(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return what each aggregate adds up to, by series and run set."""
    return {
        relation: [
            tuple(round(float(x), 6) if x is not None else None for x in row)
            for row in connection.execute(
                f"select series_id, runset_id, {SUMS} from {relation} group by 1, 2 order by 1, 2".encode()
            ).fetchall()
        ]
        for relation in LEVELS
    }


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
            # Identities go on where they were, and placements make run sets again.
            other = World(database, tmp_path / uuid.uuid4().hex, connection)
            other.run(time.time(), experiment=21)
            other.write(other.gauge("node_load1", [time.time()], [1.0]))
            assert connection.execute(
                "select count(*) from samples where runset_id > 0 and time > now() - interval '1 min'"
            ).fetchone() == (1,)


def test_what_retention_has_left_comes_back_too(full: World, flavour: Flavour, empty: Empty, tmp_path: Path) -> None:
    kept = full.connection.execute("select run_id from runs where position = 1 order by started_at limit 1").fetchone()
    full.connection.execute("update runs set keep = true where run_id = %s", kept)
    aggregates.keep_raw(full.connection, 1)
    aggregates.maintain(full.connection)
    start = time.time() - 5 * 86_400
    full.write(full.gauge("node_load1", [start + at for at in range(60)], [3.0] * 60))  # behind the edge, in raw still
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
            assert contents(connection)["bench.stored_summaries"] == expected["bench.stored_summaries"]


def test_every_table_of_ours_is_in_it_or_known_not_to_be(full: World, tmp_path: Path) -> None:
    manifest = backup(full.database, tmp_path / "file")
    tables = full.connection.execute("select tablename from pg_tables where schemaname = 'bench'").fetchall()
    assert {name for (name,) in tables} - BELOW_EDGE - LEFT_OUT == {table.name for table in manifest.tables}


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
    # MLflow itself goes on with it, and numbers its experiments on.
    more = "import sys; from mlflow import MlflowClient; print(MlflowClient(sys.argv[1]).create_experiment('more'))"
    done = subprocess.run(
        [sys.executable, "-c", more, there.sqlalchemy_url("mlflow")], check=True, capture_output=True, text=True
    )
    assert done.stdout.split()[-1] == "2"
    with there.session() as connection:
        connection.execute("drop schema bench cascade")
    with pytest.raises(BadRequest, match=r"mlflow.runs has rows"):
        restore(there, tmp_path / "file")


COLUMNS = """
    select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns
    where table_schema = 'mlflow' order by 1, 2
"""


def test_it_is_of_one_moment_while_others_write(database: Database, empty: Empty, tmp_path: Path) -> None:
    stopping, began = threading.Event(), threading.Event()

    def write() -> None:
        with database.connect() as connection:
            for batch in range(1_000_000):
                with connection.transaction():
                    connection.execute("insert into batches (source, batch) values ('x', %s)", (batch,))
                    # One side of the clock's minute and the other: in a backup of two moments they would differ.
                    connection.execute(
                        "insert into samples select now() - n * interval '1 h', n, 0, 1, 1 from generate_series(1, 50) n"
                    )
                if batch > 20:
                    began.set()
                if stopping.is_set():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert began.wait(60)
        counts = []
        for name in ("one", "two", "three"):
            manifest = backup(database, tmp_path / name)
            rows = {table.name: table.rows for table in manifest.tables}
            assert rows["samples"] == 50 * rows["batches"]
            counts.append(rows["batches"])
    finally:
        stopping.set()
        writer.join()
    assert counts == sorted(counts)


def test_chunks_are_not_compressed_under_a_backup(timescaledb_dsn: str, tmp_path: Path) -> None:
    with own_database(timescaledb_dsn, timescaledb=True) as dsn, Database(Settings(home=tmp_path, dsn=dsn)) as database:
        with database.session() as connection, database.session() as other:
            connection.execute(
                "insert into samples select now() - n * interval '1 min', 1, 0, n, 60 from generate_series(1, 9000) n"
            )
            # The backup stops at a table in the middle; a compression that begins then would empty a chunk under it.
            other.execute("begin; lock table bench.retags in access exclusive mode")
            done: list[int] = []
            thread = threading.Thread(
                target=lambda: done.extend(
                    t.rows for t in backup(database, tmp_path / "file").tables if t.name == "samples"
                )
            )
            thread.start()
            wait_for(lambda: waiting(connection), "a waiting backup")
            connection.execute("set lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                connection.execute("select public.compress_chunk(c) from public.show_chunks('bench.samples') c")
            connection.execute("insert into samples values (now(), 1, 0, 1, 1)")  # writers are not kept waiting
            other.execute("rollback")
            thread.join()
        assert done == [9000]


def waiting(connection: Connection) -> bool:
    return connection.execute(
        "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        " and application_name = 'hypergauge')"
    ).fetchone() == (True,)


def schema_is_there(database: Database) -> bool:
    with database.session() as connection:
        return connection.execute("select to_regclass('bench.runs') is not null").fetchone() == (True,)


@pytest.fixture
def file(full: World, tmp_path: Path) -> Path:
    backup(full.database, tmp_path / "file")
    return tmp_path / "file"


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


def rewritten(file: Path, **changes: object) -> Path:
    """Return a copy of a backup with another manifest."""
    copy = file.with_name("changed")
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(copy, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "manifest.json":
                content = json.dumps({**json.loads(content), **changes}).encode()
            target.writestr(name, content)
    return copy


def test_a_newer_backup_is_refused(file: Path, empty: Empty) -> None:
    there = empty(Flavour.POSTGRESQL)
    with pytest.raises(BadBackup, match=r"it is of schema version 999 \(hypergauge .*update hypergauge"):
        restore(there, rewritten(file, schema_version=999))
    with pytest.raises(BadBackup, match="its format is 2, this release reads 1: update hypergauge"):
        restore(there, rewritten(file, format=2))


def test_rows_that_the_manifest_does_not_know_roll_everything_back(file: Path, empty: Empty) -> None:
    with opened(file) as (_, manifest):
        tables = [
            {"schema": one.schema, "name": one.name, "columns": one.columns, "rows": one.rows + (one.name == "samples")}
            for one in manifest.tables
        ]
    there = empty(Flavour.POSTGRESQL)
    with pytest.raises(BenchError, match=r"bench/samples.copy has 7500 rows, its manifest says 7501"):
        restore(there, rewritten(file, tables=tables))
    assert not schema_is_there(there)


def test_an_older_backup_is_migrated(
    file: Path, flavour: Flavour, empty: Empty, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrate.migrations

    def with_one_more(flavour: Flavour) -> list[migrate.Migration]:
        text = "alter table runs add column colour text not null default 'red'; update runs set colour = upper(name);"
        return [*known(flavour), migrate.Migration(999, "colour", text)]

    monkeypatch.setattr(migrate, "migrations", with_one_more)
    there = empty(flavour)
    with there.session() as connection:
        migrate.migrate(connection)  # a command has been here before
    restore(there, file)
    with there.session() as connection:
        row = connection.execute("select count(*), count(*) filter (where colour = upper(name)) from runs").fetchone()
        assert row == (6, 6)
        assert max(migrate.applied(connection)) == 999


def test_only_an_empty_and_idle_database_is_restored_into(full: World, file: Path, empty: Empty) -> None:
    with pytest.raises(BadRequest, match="1 other connection to this database: end what uses it"):
        restore(full.database, file)
    there = empty(Flavour.POSTGRESQL)
    restore(there, file)
    with pytest.raises(BadRequest, match=r"the database is not empty \(bench.runs has rows\), .* set BENCH_HOME"):
        restore(there, file)
    theirs = empty(Flavour.POSTGRESQL)
    with theirs.open().session() as connection:
        connection.execute("create view public.mine as select * from bench.run_summary")
    with pytest.raises(BadRequest, match=r"depends on the schema `bench`, drop it first: public.mine"):
        restore(theirs, file)


def test_a_table_of_somebody_elses_is_named_and_left_out(full: World, empty: Empty, tmp_path: Path) -> None:
    full.connection.execute("create table mine (id integer generated always as identity, word text)")
    full.connection.execute("insert into mine (word) values ('a')")
    backup(full.database, tmp_path / "file")
    there = empty(Flavour.POSTGRESQL)
    said: list[str] = []
    restore(there, tmp_path / "file", said.append)
    assert "left out: bench.mine (1 rows) is not a table of hypergauge's" in said
    with there.session() as connection:
        assert connection.execute("select count(*) from samples").fetchone() == (7500,)


def test_nothing_to_back_up_is_said(empty: Empty, tmp_path: Path) -> None:
    with pytest.raises(NoData, match="nothing to back up"):
        backup(empty(Flavour.POSTGRESQL), tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_replaced_only_on_request(full: World, file: Path) -> None:
    before = file.stat().st_ino
    with pytest.raises(BadRequest, match="it exists already; --force replaces it"):
        backup(full.database, file)
    assert file.stat().st_ino == before
    backup(full.database, file, replace=True)
    assert file.stat().st_ino != before


def start(database: Database, *words: str | Path, **options: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "BENCH_DSN": database.dsn, "BENCH_HOME": str(database.settings.home)}
    command = [sys.executable, "-P", "-m", "bench.cli", "db", *map(str, words)]
    return subprocess.Popen(
        command, env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )


@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_backup_leaves_no_file(full: World, tmp_path: Path, with_signal: signal.Signals) -> None:
    file = tmp_path / "file"
    with full.database.session() as other:
        other.execute("begin; lock table bench.workloads in access exclusive mode")
        with start(full.database, "backup", file, preexec_fn=listen_to_interrupts) as process:
            wait_for(lambda: waiting(full.connection), "a waiting backup", 60)
            process.send_signal(with_signal)
            other.execute("rollback")
        assert process.returncode != 0
    assert not file.exists()
    backup(full.database, file)
    assert [path.name for path in tmp_path.glob("file*")] == ["file"]
    with opened(file) as (_, manifest):
        assert {table.name: table.rows for table in manifest.tables}["samples"] == 7500


@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_restore_leaves_nothing(
    file: Path, flavour: Flavour, empty: Empty, with_signal: signal.Signals
) -> None:
    there = empty(flavour)
    with there.session() as connection:
        migrate.migrate(connection)  # makes the roles
        connection.execute("drop schema bench cascade; drop schema bench_own cascade")
    name = conninfo.conninfo_to_dict(there.dsn)["dbname"]
    # Another's change of a role keeps the restore from its last step, when all has been copied and nothing committed.
    elsewhere = conninfo.make_conninfo(there.dsn, dbname="postgres")
    with psycopg.connect(elsewhere) as other, psycopg.connect(elsewhere, autocommit=True) as watcher:
        other.execute("alter role bench_owner set search_path = bench, public")
        with start(there, "restore", file, preexec_fn=listen_to_interrupts) as process:
            wait_for(lambda: watcher.execute(WAITING, (name,)).fetchone(), "a waiting restore", 60)
            process.send_signal(with_signal)
        assert process.returncode != 0
        other.rollback()
    wait_for(lambda: alone(there), "the end of the killed restore", 60)
    assert not schema_is_there(there)
    restore(there, file)
    with there.session() as connection:
        assert connection.execute("select count(*) from samples").fetchone() == (7500,)


WAITING = "select 1 from pg_stat_activity where datname = %s and wait_event_type = 'Lock'"


def alone(database: Database) -> bool:
    with database.session() as connection:
        return connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
        ).fetchone() == (1,)


def test_a_full_disk_leaves_no_file(full: World, tmp_path: Path) -> None:
    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    with start(full.database, "backup", tmp_path / "file", preexec_fn=bound) as process:
        _, errors = process.communicate()
    assert process.returncode == 1
    assert "File too large" in errors
    assert list(tmp_path.glob("file*")) == []


def test_the_command_says_what_it_did(full: World, empty: Empty, tmp_path: Path) -> None:
    there = empty(Flavour.POSTGRESQL)
    with start(full.database, "backup", tmp_path / "file") as process:
        _, said = process.communicate()
    assert "6 runs, 7500 samples; schema version" in said
    with start(there, "restore", tmp_path / "file") as process:
        _, said = process.communicate()
    assert "6 runs, 7500 samples" in said
    with start(there, "restore", tmp_path / "file") as process:
        _, said = process.communicate()
    assert process.returncode == 2
    assert "the database is not empty" in said


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


@pytest.mark.parametrize("kept", ["some", "none"])
@pytest.mark.timescale
def test_aggregates_whose_samples_are_deleted_come_along(empty: Empty, tmp_path: Path, kept: str) -> None:
    hour = time.time() // 3600 * 3600
    edge = hour - 2 * 86_400 if kept == "some" else hour
    here, there, back = empty(Flavour.POSTGRESQL), empty(Flavour.TIMESCALEDB), empty(Flavour.POSTGRESQL)
    with here.open().session() as connection:
        if connection.execute("select to_regclass('bench.retention')").fetchone() == (None,):
            pytest.skip("this schema has no retention")
        connection.execute(
            "insert into samples select to_timestamp(%s) - n * interval '10 s', n %% 7 + 1, 0, n, 10"
            " from generate_series(1, 50000) n",
            (hour,),
        )
        before = sums(connection)
        for relation, _ in LEVELS:
            statement = sql.SQL("insert into {} select * from {} where bucket < to_timestamp({})")
            names = sql.Identifier(f"{relation}_stored"), sql.Identifier(relation)
            connection.execute(statement.format(*names, sql.Literal(edge)))
        connection.execute("delete from samples where time < to_timestamp(%s)", (edge,))
        connection.execute("update retention set edge = to_timestamp(%s)", (edge,))
        assert sums(connection) == before
    backup(here, tmp_path / "one")
    restore(there, tmp_path / "one")
    backup(there, tmp_path / "two")
    restore(back, tmp_path / "two")
    for database in (there, back):
        with database.session() as connection:
            assert sums(connection) == before
