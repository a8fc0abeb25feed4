"""Moves: everything, once, between any two flavours, whatever interrupts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError, DatabaseUnavailable
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database, StatementFailed
from hypergauge.sql.transfer.move import samples
from hypergauge.sql.transfer.move.move import Differs, Moved, move
from hypergauge.sql.transfer.move.samples import slices
from hypergauge.sql.transfer.move.target import target_settings
from tests.conftest import NewFolder
from tests.support.data.backups import OTHER, Empty, contents, sums
from tests.support.disks import fill, small_disk
from tests.support.servers.databases import own_server
from tests.support.world import World

pytestmark = pytest.mark.flavours

SAMPLES = 3 * (1200 + 400 + 900)
SUMMARY = "select * from run_summary order by run_id, quantity, scope, metric, device"


def content(database: Database) -> tuple[object, ...]:
    """Return all that readers see: each row of each table, aggregates, summaries."""
    with database.session() as connection:
        connection.execute("set timezone = 'UTC'")
        return contents(connection), sums(connection), connection.execute(SUMMARY).fetchall()


def left(full: World) -> tuple[object, ...]:
    """Return the content of the source, and close its connection."""
    found = content(full.database)
    full.connection.close()
    return found


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


class Stopped(Exception):
    pass


def at_line(beginning: str) -> Callable[[str], None]:
    """Return a callback that interrupts the move at a message."""

    def notify(line: str) -> None:
        if line.startswith(beginning):
            raise Stopped(line)

    return notify


KILLED = """
import os, signal, sys
from pathlib import Path
from hypergauge.core.config.settings import Settings
from hypergauge.sql.server.database import Database
from hypergauge.sql.transfer.move.move import move
source, target, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
count = 0
def notify(line):
    global count
    count += 1
    if count == at:
        os.kill(os.getpid(), signal.SIGKILL)
move(Database(Settings(home=Path(), dsn=source)), Database(Settings(home=Path(), dsn=target)), notify=notify)
"""


def killed(source: Database, target: Database, at: int) -> bool:
    """Move in a process that is killed at its message of that number; return whether it was."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", KILLED, source.dsn, target.dsn, str(at)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.slow
def test_a_move_that_is_killed_at_each_step_continues(full: World, flavour: Flavour, empty: Empty) -> None:
    expected = left(full)
    there = empty(OTHER[flavour])
    # Each slice is copied by another process, and so is the rest.
    at = 1
    kills = 0
    while killed(full.database, there, at):
        kills += 1
        if kills > 4:  # past the slices
            at += 1
        assert kills < 20
    assert kills >= 6
    assert content(there) == expected
    assert move(full.database, there).earlier is not None, "there is nothing left to do"


@pytest.mark.slow
def test_a_move_that_is_killed_at_any_time_continues(full: World, flavour: Flavour, empty: Empty) -> None:
    """Kills at moments that are in no order to the move's steps, some in the middle of a COPY."""
    for shift in range(20):
        start = time.time() - (20 + shift) * 86_400
        full.write(full.gauge("queue_length", [start + at / 10 for at in range(20_000)], [float(shift)] * 20_000))
    full.refresh()
    expected = left(full)
    there = empty(OTHER[flavour])
    environment = {**os.environ, "BENCH_DSN": full.database.dsn, "BENCH_HOME": str(full.database.settings.home)}
    command = [sys.executable, "-P", "-m", "hypergauge.cli", "db", "move", there.dsn]
    for tenths in range(3, 200):
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            _, output = process.communicate(timeout=tenths / 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            continue
        assert process.returncode == 0, output
        break
    assert content(there) == expected


def test_a_source_that_changes_between_attempts_is_copied_as_it_is_in_the_end(
    full: World, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    left(full)
    there = empty(OTHER[flavour])
    with pytest.raises(Stopped):
        move(full.database, there, notify=at_line("Verifying"))
    with full.database.session() as connection:
        world = World(full.database, tmp_path / uuid.uuid4().hex, connection)
        now = time.time() // 600 * 600
        world.run(now - 600, now - 300, experiment=22)
        world.write(world.gauge("queue_length", [now - 600 + at for at in range(500)], [1.0] * 500))
    move(full.database, there)
    with full.database.session() as connection:
        World(full.database, tmp_path / uuid.uuid4().hex, connection).refresh()
    assert content(there) == content(full.database)


def at_verification(change: Callable[[], None]) -> Callable[[str], None]:
    def notify(line: str) -> None:
        if line.startswith("Verifying"):
            change()

    return notify


def test_a_tampered_sample_is_found_and_copied_again(full: World, flavour: Flavour, empty: Empty) -> None:
    expected = left(full)
    there = empty(OTHER[flavour])

    def tamper() -> None:
        with there.session() as connection:
            if OTHER[flavour] is Flavour.TIMESCALEDB:
                connection.execute(
                    "update samples set value = value + 1 where (time, series_id) = (select time, series_id from samples limit 1)"
                )
            else:
                connection.execute(
                    "update packed_samples set doubles[1] = 7 where first = (select min(first) from packed_samples)"
                )

    with pytest.raises(
        Differs, match=r"bench\.samples from 20..-..-.. ..:.. UTC on \((\d+) rows in the source, \1 in the target\)"
    ):
        move(full.database, there, notify=at_verification(tamper))
    move(full.database, there)
    with there.session() as connection:
        World(there, Path(), connection).refresh()
    assert content(there) == expected


def test_a_tampered_run_is_found(full: World, flavour: Flavour, empty: Empty) -> None:
    left(full)
    there = empty(OTHER[flavour])

    def tamper() -> None:
        with there.session() as connection:
            connection.execute("update runs set name = 'other' where position = 2")

    with pytest.raises(Differs, match=r"bench\.runs \(6 rows in the source, 6 in the target\)"):
        move(full.database, there, notify=at_verification(tamper))
    with pytest.raises(BadRequest, match=r"the target was used since the interrupted move \(bench\.runs has changed\)"):
        move(full.database, there)


def test_more_samples_than_in_the_source_are_found(full: World, flavour: Flavour, empty: Empty) -> None:
    left(full)
    there = empty(OTHER[flavour])

    def tamper() -> None:
        with there.session() as connection:
            connection.execute("insert into samples values ('2020-01-01', 1, 0, 1, 1)")

    with pytest.raises(Differs, match=r"bench\.samples \(1 rows outside the times of the source\)"):
        move(full.database, there, notify=at_verification(tamper))


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


def test_a_source_that_is_written_to_meanwhile_is_reported(full: World, flavour: Flavour, empty: Empty) -> None:
    left(full)
    there = empty(OTHER[flavour])

    def write() -> None:
        with full.database.session() as connection:
            connection.execute("insert into batches (source, batch) values ('x', 1)")

    with pytest.raises(Differs, match="the source was written to meanwhile"):
        move(full.database, there, notify=at_verification(write))
    move(full.database, there)
    assert content(there)[0] == content(full.database)[0]


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


def test_a_full_disk_is_reported(full: World, flavour: Flavour, empty: Empty, monkeypatch: pytest.MonkeyPatch) -> None:
    left(full)
    error = psycopg.errors.DiskFull("could not extend file: No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(samples, "copy_slice", Mock(side_effect=error))
        with pytest.raises(StatementFailed, match=r"no space is left on a server.*the same command continues"):
            move(full.database, empty(OTHER[flavour]))


@pytest.mark.slow
def test_a_move_continues_after_a_full_disk(full: World, flavour: Flavour, new_folder: NewFolder) -> None:
    """The server may stop on a full disk, as PostgreSQL does where its log cannot grow."""
    table = full.connection.execute("select sample_table()").fetchone()
    assert table is not None
    full.connection.execute(
        f"insert into {table[0]} select now() - interval '3 days' + n * interval '1 ms', 1, 0, random(), 1"
        " from generate_series(1, 500000) n".encode()
    )
    full.refresh()
    expected = left(full)
    folder = new_folder() / "server"
    with small_disk(folder, 1 << 30) as disk, own_server(OTHER[flavour], folder) as server:
        there = Database(Settings(home=full.folder, dsn=server.dsn))
        with there.open().session() as connection:
            connection.execute("checkpoint")
        ballast = fill(disk, leave=1 << 20)
        with pytest.raises(BenchError, match=r"no space is left on a server|the connection to a server is lost"):
            move(full.database, there)
        ballast.unlink()
        server.start()
        server.wait()
        move(full.database, there)
        assert content(there) == expected


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
