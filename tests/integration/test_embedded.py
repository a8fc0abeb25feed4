"""The embedded server: wherever its home is, for whoever comes first, until the last one leaves."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psycopg
import pytest

from bench.errors import DatabaseUnavailable
from sql.embedded import EmbeddedServer
from tests.e2e.home import listen_to_interrupts


@pytest.fixture
def folder(short_folder: Path) -> Path:
    return short_folder / uuid.uuid4().hex[:8] / "postgres"


def test_it_works_however_long_its_path_is(short_folder: Path) -> None:
    home = short_folder / uuid.uuid4().hex[:8]
    folder = home / ("x" * (200 - len(str(home)) - 1))
    assert len(str(folder)) == 200
    server = EmbeddedServer(folder)
    with psycopg.connect(server.acquire()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert len(os.fsencode(server.socket_dir / ".s.PGSQL.5432")) < 108
    assert stat.S_IMODE(server.socket_dir.stat().st_mode) == 0o700
    server.release()
    assert not server.running


def test_the_last_one_to_leave_stops_it(folder: Path) -> None:
    first, second = EmbeddedServer(folder), EmbeddedServer(folder)
    first.acquire()
    second.acquire()
    first.release()
    first.release()
    assert second.running
    second.release()
    assert not second.running


def test_a_holder_that_was_killed_counts_no_more(folder: Path) -> None:
    script = (
        "import os, pathlib, sys; from sql.embedded import EmbeddedServer\n"
        "EmbeddedServer(pathlib.Path(sys.argv[1])).acquire(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(folder)], check=False)
    server = EmbeddedServer(folder)
    assert server.running
    server.acquire()
    server.release()
    assert not server.running


def test_data_in_use_on_another_host_is_refused(folder: Path) -> None:
    server = EmbeddedServer(folder)
    server.acquire()
    lease = folder / "lease.json"
    mine = json.loads(lease.read_text())
    lease.write_text(json.dumps({**mine, "host": "node7"}))
    with pytest.raises(DatabaseUnavailable, match=r"is in use on host node7; stop it there with `bench down`"):
        EmbeddedServer(folder).acquire()
    lease.write_text(json.dumps(mine))
    server.release()


def test_data_of_another_major_version_is_refused(folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text("16\n")
    with pytest.raises(
        DatabaseUnavailable, match=r"was made by PostgreSQL 16, this release has 18: use it with the release that"
    ):
        EmbeddedServer(folder).acquire()


@pytest.mark.parametrize("after", [0.1, 0.3, 0.6])
def test_an_interrupt_while_it_is_made_leaves_nothing_half(folder: Path, after: float) -> None:
    script = "import pathlib, sys; from sql.embedded import EmbeddedServer\nEmbeddedServer(pathlib.Path(sys.argv[1])).acquire()"
    command = [sys.executable, "-c", script, str(folder)]
    # The background of a shell has interrupts ignored; here they are to be heard.
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=listen_to_interrupts) as process:
        time.sleep(after)
        process.send_signal(signal.SIGINT)
    server = EmbeddedServer(folder)
    with psycopg.connect(server.acquire()) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
    server.release()


def test_it_listens_nowhere_whatever_its_file_says(folder: Path) -> None:
    server = EmbeddedServer(folder)
    server.acquire()
    server.release()
    with (folder / "data" / "postgresql.conf").open("a") as file:
        file.write("listen_addresses = '127.0.0.1'\n")
    with psycopg.connect(server.acquire()) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
    server.release()


def test_login_cron_and_batch_find_the_same_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = EmbeddedServer(folder)
    before = first.dsn
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert EmbeddedServer(folder).dsn == before
