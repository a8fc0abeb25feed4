"""Upgrades of an older PostgreSQL's data: every row, through interruptions; the old data stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import DatabaseUnavailable
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.server.upgrade import upgrade
from tests.conftest import NewFolder
from tests.support.home import listen_to_interrupts
from tests.support.waiting import wait_for
from tests.support.world import World

SCRIPT = (
    "import pathlib, sys; from hypergauge.sql.server.embedded import EmbeddedServer; from hypergauge.sql.server.upgrade import upgrade\n"
    "upgrade(EmbeddedServer(pathlib.Path(sys.argv[1])))"
)


@pytest.fixture
def folder(new_folder: NewFolder, tmp_path: Path) -> Path:
    """A folder with data of PostgreSQL 16: our schema, runs and samples, and a setting of the user's."""
    folder = new_folder() / "postgres"
    old = EmbeddedServer(folder, major=16)
    settings = Settings(home=folder.parent, dsn=old.acquire())
    with Database(settings) as database, database.connect() as connection:
        world = World(database, tmp_path / "spool", connection)
        start = time.time() - 3600
        world.run(start, start + 600)
        world.write(world.gauge("node_load1", [start + at for at in range(900)], [1.5] * 900))
    old.release()
    with (folder / "data" / "postgresql.conf").open("a") as file:
        file.write("work_mem = '7MB'\n")
    return folder


def totals(server: EmbeddedServer) -> tuple[object, ...]:
    """Start a server, and return what is in its database."""
    with psycopg.connect(server.acquire()) as connection:
        row = connection.execute(
            "select (select count(*) from bench.samples), (select sum(area) from bench.samples_1m),"
            " (select count(*) from bench.runs), (select count(*) from bench.run_summary where quantity = 'load'),"
            " current_setting('work_mem')"
        ).fetchone()
    server.release()
    assert row is not None
    return row


TOTALS = (900, 1350.0, 1, 2, "7MB")


def test_every_row_comes_over_and_the_old_data_stay(folder: Path) -> None:
    server = EmbeddedServer(folder)
    with pytest.raises(DatabaseUnavailable, match=r"PostgreSQL 16, .* `bench db upgrade`"):
        server.acquire()
    done = upgrade(server)
    assert done is not None
    assert (done.old, done.new, done.kept) == (16, 18, folder / "data-16")
    assert server.made_by == 18
    assert totals(server) == TOTALS
    assert upgrade(server) is None
    assert sorted(path.name for path in folder.glob("*-*")) == ["data-16"]
    # The way back: the old data are whole.
    (folder / "data").rename(folder / "data-18")
    (folder / "data-16").rename(folder / "data")
    assert totals(EmbeddedServer(folder, major=16)) == TOTALS
    assert upgrade(server) is not None
    assert (folder / "data-18").exists()


def test_the_command_reports_what_is_left(folder: Path) -> None:
    environment = {**os.environ, "BENCH_HOME": str(folder.parent)}
    environment.pop("BENCH_DSN", None)
    command = [sys.executable, "-P", "-m", "hypergauge.cli", "db", "upgrade"]
    messages = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr for _ in range(2)
    ]
    assert (
        f"the data of PostgreSQL 16 are kept in {folder}/data-16; to delete them: rm -r {folder}/data-16" in messages[0]
    )
    assert "PostgreSQL 18" in messages[1]


def test_it_is_refused_while_a_process_holds_the_server(folder: Path) -> None:
    old = EmbeddedServer(folder, major=16)
    old.acquire()
    with pytest.raises(DatabaseUnavailable, match=r"is in use: stop its clients \(`bench down`\), and retry"):
        upgrade(EmbeddedServer(folder))
    assert old.running
    old.release()


def test_a_server_left_by_killed_holders_is_stopped(folder: Path) -> None:
    script = (
        "import os, pathlib, sys; from hypergauge.sql.server.embedded import EmbeddedServer\n"
        "EmbeddedServer(pathlib.Path(sys.argv[1]), major=16).acquire(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(folder)], check=False)
    server = EmbeddedServer(folder)
    assert server.running
    assert upgrade(server) is not None
    assert totals(server) == TOTALS


def test_lack_of_room_is_reported_before_anything_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypergauge.sql.server.upgrade.WORKING_BYTES", 1 << 60)
    with pytest.raises(DatabaseUnavailable, match=r"\d+ MiB, .* \d+ MiB free"):
        upgrade(EmbeddedServer(folder))
    assert totals(EmbeddedServer(folder, major=16)) == TOTALS


def glob(pattern: str) -> Callable[[Path], bool]:
    return lambda folder: any(folder.glob(pattern))


@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(glob("data/postmaster.pid"), id="counting"),
        pytest.param(glob("upgrading-*/data/PG_VERSION"), id="making"),
        pytest.param(glob("upgrading-*/data/pg_upgrade_output.d/*/dump/*"), id="dumping"),
    ],
)
def test_an_upgrade_that_was_interrupted_is_done_again(
    folder: Path, with_signal: signal.Signals, moment: Callable[[Path], bool]
) -> None:
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=listen_to_interrupts) as process:
        wait_for(lambda: moment(folder), "the moment")
        process.send_signal(with_signal)
    server = EmbeddedServer(folder)
    assert server.made_by == 16
    with pytest.raises(DatabaseUnavailable, match="`bench db upgrade` upgrades them"):
        server.acquire()
    if with_signal == signal.SIGINT:
        assert list(folder.glob("upgrading-*")) == []
    assert upgrade(server) is not None
    assert totals(server) == TOTALS
    assert list(folder.glob("upgrading-*")) == []


def test_one_that_was_cut_off_between_its_last_steps_is_completed_by_the_next_start(folder: Path) -> None:
    server = EmbeddedServer(folder)
    assert upgrade(server) is not None
    (folder / "data").rename(server.proven)
    assert totals(server) == TOTALS


def test_a_proven_copy_that_has_not_taken_its_place_is_made_again(folder: Path) -> None:
    server = EmbeddedServer(folder)
    server.proven.mkdir()
    (server.proven / "PG_VERSION").write_text("18\n")
    old = EmbeddedServer(folder, major=16)
    with psycopg.connect(old.acquire()) as connection:
        connection.execute("insert into bench.samples values (now(), 1, 0, 1, 1)")
    old.release()
    assert upgrade(server) is not None
    assert totals(server)[0] == 901
