"""Moves that are killed, run out of space, or whose source or target changes meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database, StatementFailed
from hypergauge.sql.transfer.move import samples
from hypergauge.sql.transfer.move.move import Differs, move
from tests.conftest import NewFolder
from tests.support.data.backups import OTHER, Empty
from tests.support.data.moves import Stopped, at_line, at_verification, content, left
from tests.support.disks import fill, small_disk
from tests.support.servers.databases import own_server
from tests.support.world import World

pytestmark = pytest.mark.flavours

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
    for tenths in range(3, 40, 2):
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(tenths / 10)
            process.kill()
    subprocess.run(command, env=environment, capture_output=True, check=True)
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
