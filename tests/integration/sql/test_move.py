"""Moves: everything arrives, between any two flavours, and only where it may."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from benchmarks.support.servers import installed_timescale
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, DatabaseUnavailable
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.server.programs import Programs
from hypergauge.sql.transfer.move.move import Moved, move
from hypergauge.sql.transfer.move.samples import slices
from hypergauge.sql.transfer.move.target import target_settings
from tests.conftest import NewFolder, own_database, running
from tests.support.data.backups import OTHER, Empty, contents, sums
from tests.support.data.moves import Stopped, at_line, content, left
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = pytest.mark.flavours

SAMPLES = 3 * (1200 + 400 + 900)


@pytest.mark.parametrize("same", [True, False])
def test_everything_arrives_and_comes_back(
    full: World, flavour: Flavour, empty: Empty, same: bool, tmp_path: Path
) -> None:
    expected = left(full)
    there, back = empty(flavour if same else OTHER[flavour]), empty(flavour)
    moved = move(full.database, there)
    assert (moved.runs, moved.samples) == (6, SAMPLES)
    assert content(there) == expected
    move(there, back)
    assert content(back) == expected == content(full.database)
    with back.session() as connection:
        # Identities continue where they were, and placements make run sets again.
        world = World(back, tmp_path / uuid.uuid4().hex, connection)
        world.run(time.time(), experiment=21)
        world.write(world.gauge("node_load1", [time.time()], [1.0]))
        row = connection.execute("select count(*) from samples where runset_id > 0 and time > now() - interval '1 min'")
        assert row.fetchone() == (1,)
        world.refresh()


def test_what_retention_has_left_arrives(full: World, flavour: Flavour, empty: Empty) -> None:
    kept = full.connection.execute("select run_id from runs where position = 1 order by started_at limit 1").fetchone()
    full.connection.execute("update runs set keep = true where run_id = %s", kept)
    aggregates.keep_raw(full.connection, 1)
    aggregates.maintain(full.connection)
    start = time.time() - 5 * 86_400
    full.write(full.gauge("node_load1", [start + at for at in range(60)], [3.0] * 60))
    full.refresh()
    expected = left(full)
    there, back = empty(OTHER[flavour]), empty(flavour)
    move(full.database, there)
    move(there, back)
    for database in (there, back):
        assert content(database)[1] == expected[1]
        with database.session() as connection:
            assert aggregates.retention(connection).keep_raw == timedelta(days=1)
            aggregates.maintain(connection)
        assert content(database)[1] == expected[1]


def test_writers_of_the_source_are_named(full: World, flavour: Flavour, empty: Empty) -> None:
    there = empty(OTHER[flavour])
    with pytest.raises(BadRequest, match=r"1 connection of .* \(hypergauge\).*`bench down`"):
        move(full.database, there)
    full.connection.execute("insert into collectors values ('x', 'node9', 77, '', now() + interval '1 min')")
    full.run(time.time(), experiment=30)
    full.connection.close()
    with pytest.raises(BadRequest, match=r"the collector with pid 77 on node9.*the run [0-9a-f]{8} on node1"):
        move(full.database, there)
    with there.session() as connection:
        assert connection.execute("select to_regclass('bench.runs')").fetchone() == (None,), "nothing was made"


def test_readers_of_the_source_do_not_matter(full: World, flavour: Flavour, empty: Empty) -> None:
    full.connection.execute("alter role bench_reader login")
    full.connection.close()
    with psycopg.connect(full.database.dsn, user="bench_reader"):
        move(full.database, empty(OTHER[flavour]))


@pytest.mark.parametrize("migrated", [False, True])
def test_a_site_with_roles_is_filled_as_the_page_shows(
    full: World, flavour: Flavour, new_folder: NewFolder, tmp_path: Path, migrated: bool
) -> None:
    """Database, extension, ``roles.sql``, perhaps the schema, then the move as the owner."""
    expected = left(full)
    site: EmbeddedServer | None = EmbeddedServer(new_folder() / "site")
    if flavour is Flavour.TIMESCALEDB:
        site = installed_timescale(new_folder() / "site")
    if site is None:
        pytest.skip("no TimescaleDB is installed")
    psql, roles = Programs().folder / "psql", Path(__file__).parents[3] / "sql" / "roles.sql"
    with running(site) as admin, own_database(admin, timescaledb=flavour is Flavour.TIMESCALEDB) as dsn:
        subprocess.run([psql, "-qX", "-d", dsn, "-f", roles], check=True)
        there = Database(Settings(home=tmp_path, dsn=conninfo.make_conninfo(dsn, user="bench_owner")))
        if migrated:
            there.open().close()
        move(full.database, there)
        with there.session() as connection:
            assert contents(connection).keys() >= {"bench.runs", "bench.samples"}
            assert sums(connection) == expected[1]


def test_background_jobs_of_the_source_do_not_matter_to_a_plain_owner(
    timescaledb_dsn: str, empty: Empty, tmp_path: Path
) -> None:
    """An owner who is no superuser sees the names of the server's own processes, and nothing else of them."""
    name = f"owner_{uuid.uuid4().hex[:8]}"
    with own_database(timescaledb_dsn, timescaledb=True) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f'create role {name} login; alter database "{admin.info.dbname}" owner to {name}'.encode())
        source = Database(Settings(home=tmp_path, dsn=conninfo.make_conninfo(dsn, user=name)))
        source.open()
        admin.close()
        with source.session() as connection:
            connection.execute("insert into bench.experiments (experiment_id, name, source) values (1, 'one', '')")
            # The launcher starts a scheduler in each database, and the scheduler starts due jobs.
            query = "select count(*) from pg_stat_activity where application_name like 'TimescaleDB%' and datname = current_database()"
            wait_for(lambda: connection.execute(query).fetchone() != (0,), "TimescaleDB's scheduler")
        there = empty(Flavour.POSTGRESQL)
        move(source, there)
        with there.session() as connection:
            assert connection.execute("select name from bench.experiments").fetchall() == [("one",)]
    with psycopg.connect(timescaledb_dsn, autocommit=True) as admin:
        admin.execute(f"drop role {name}".encode())


@pytest.mark.parametrize("name", ["psql", ""])
def test_clients_of_a_plain_owner_are_named(full: World, flavour: Flavour, empty: Empty, name: str) -> None:
    full.connection.close()
    refusal = rf"1 connection of .* \({re.escape(name or 'no name')}\)"
    with psycopg.connect(full.database.dsn, application_name=name), pytest.raises(BadRequest, match=refusal):
        move(full.database, empty(OTHER[flavour]))


def test_only_an_empty_target_is_filled(full: World, flavour: Flavour, empty: Empty, tmp_path: Path) -> None:
    left(full)
    there, third = empty(OTHER[flavour]), empty(flavour)
    with pytest.raises(BadRequest, match="the same database"):
        move(full.database, full.database)
    with there.open().session() as connection:
        connection.execute("insert into targets (host, listener, url) values ('h', 'l', 'u')")
    with pytest.raises(BadRequest, match=r"the target is not empty \(bench\.targets has rows\)"):
        move(full.database, there)
    with there.session() as connection:
        connection.execute("delete from targets")
    with pytest.raises(Stopped):
        move(full.database, there, notify=at_line("Copying"))
    move(full.database, third)
    with pytest.raises(BadRequest, match="an unfinished move from another database"):
        move(third, there)
    assert isinstance(move(full.database, there), Moved)
    with pytest.raises(BadRequest, match="the result of a move from another database"):
        move(third, there)


def test_a_table_of_another_owner_is_named_and_left_out(full: World, flavour: Flavour, empty: Empty) -> None:
    full.connection.execute("create table mine (id integer); insert into mine values (1)")
    full.connection.close()
    there = empty(OTHER[flavour])
    messages: list[str] = []
    with pytest.raises(Stopped):
        move(full.database, there, notify=at_line("Refreshing"))
    move(full.database, there, notify=messages.append)
    assert "left out: bench.mine is not a table of hypergauge's" in messages


def test_another_schema_version_is_refused(full: World, flavour: Flavour, empty: Empty) -> None:
    full.connection.execute("delete from migrations where version = 2")
    full.connection.close()
    with pytest.raises(BadRequest, match="`bench db migrate` first"):
        move(full.database, empty(flavour))


def test_a_source_in_the_middle_of_retention_is_refused(full: World, flavour: Flavour, empty: Empty) -> None:
    if flavour is Flavour.POSTGRESQL:
        pytest.skip("the raw cutoff moves in one transaction")
    full.connection.execute("update bench_internal.retention set moved_from = raw_cutoff")
    full.connection.close()
    with pytest.raises(BadRequest, match=r"not finished the deletion.*bench db maintain"):
        move(full.database, empty(flavour))


def test_a_target_is_named_in_several_ways(full: World, tmp_path: Path) -> None:
    settings = full.database.settings
    (tmp_path / "owner.dsn").write_text("postgresql://host/bench\n")
    assert target_settings(settings, str(tmp_path / "owner.dsn")).dsn == "postgresql://host/bench"
    assert target_settings(settings, "embedded").dsn is None
    for wrong, message in {
        "nothing": "neither a connection string.*nor 'embedded'",
        "postgresql://me:secret@[": "cannot be parsed",
    }.items():
        with pytest.raises(BadRequest, match=message) as raised:
            target_settings(settings, wrong)
        assert "secret" not in str(raised.value)
    with pytest.raises(BadRequest, match="the embedded database is the source"):
        target_settings(target_settings(settings, "embedded"), "embedded")
    with pytest.raises(DatabaseUnavailable, match=r"host=127\.0\.0\.1.*does not answer"):
        move(full.database, Database(target_settings(settings, "postgresql://me:secret@127.0.0.1:1/bench")))


def test_slices_hold_a_bounded_number_of_samples_and_no_two_days() -> None:
    start = datetime(2026, 11, 25, 20, tzinfo=UTC)
    counts = {start + timedelta(hours=at): 10 for at in range(12)}
    found = slices(counts, most=30)
    assert [(one.high - one.low).seconds // 3600 for one in found if one.low and one.high] == [3, 1, 3, 3, 2]
    counts[start] = 1000
    assert slices(counts, most=30)[0].high == start + timedelta(hours=1)


MLFLOW = """
import sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
experiment = client.create_experiment("digits", artifact_location="file:///nowhere")
run = client.create_run(experiment).info.run_id
for step in range(5):
    client.log_metric(run, "loss", 1 / (step + 1), step=step)
"""


@pytest.mark.slow
def test_mlflow_moves_too(database: Database, flavour: Flavour, empty: Empty) -> None:
    with database.session() as connection:
        connection.execute("create schema mlflow")
    subprocess.run([sys.executable, "-c", MLFLOW, database.sqlalchemy_url("mlflow")], check=True, capture_output=True)
    expected = content(database)
    there = empty(OTHER[flavour])
    with pytest.raises(Stopped):
        move(database, there, notify=at_line("Refreshing"))
    moved = move(database, there)
    assert moved.mlflow > 5
    assert content(there) == expected
    more = "import sys; from mlflow import MlflowClient; print(MlflowClient(sys.argv[1]).create_experiment('more'))"
    done = subprocess.run(
        [sys.executable, "-c", more, there.sqlalchemy_url("mlflow")], check=True, capture_output=True, text=True
    )
    assert done.stdout.split()[-1] == "2"
