"""Backups: everything at one moment, in a whole file or none."""

from __future__ import annotations

import resource
import signal
import threading
from pathlib import Path

import psycopg
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, NoData
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.sql.transfer.archive import opened
from hypergauge.sql.transfer.backup import BEHIND_SAMPLES, BELOW_CUTOFF, LEFT_OUT, backup
from tests.conftest import own_database
from tests.support.data.backups import Empty, start, waiting
from tests.support.home import listen_to_interrupts
from tests.support.waiting import HUNG_SECONDS, wait_for
from tests.support.world import World

pytestmark = pytest.mark.flavours


def test_every_table_of_ours_is_in_it_or_known_not_to_be(full: World, tmp_path: Path) -> None:
    manifest = backup(full.database, tmp_path / "file")
    tables = full.connection.execute(
        "select tablename from pg_tables where schemaname in ('bench', 'bench_internal')"
    ).fetchall()
    wanted = {name for (name,) in tables} - BELOW_CUTOFF - LEFT_OUT - BEHIND_SAMPLES | {"samples"}
    assert {table.name for table in manifest.tables} == wanted


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
        assert began.wait(HUNG_SECONDS)
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
            other.execute("begin; lock table bench_internal.retag_queue in access exclusive mode")
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


def test_nothing_to_back_up_is_reported(empty: Empty, tmp_path: Path) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_backup_leaves_no_file(full: World, tmp_path: Path, with_signal: signal.Signals) -> None:
    file = tmp_path / "file"
    with full.database.session() as other:
        other.execute("begin; lock table bench.workloads in access exclusive mode")
        with start(full.database, "backup", file, preexec_fn=listen_to_interrupts) as process:
            wait_for(lambda: waiting(full.connection), "a waiting backup")
            process.send_signal(with_signal)
            other.execute("rollback")
        assert process.returncode != 0
    assert not file.exists()
    backup(full.database, file)
    assert [path.name for path in tmp_path.glob("file*")] == ["file"]
    with opened(file) as (_, manifest):
        assert {table.name: table.rows for table in manifest.tables}["samples"] == 7500


@pytest.mark.slow
def test_a_full_disk_leaves_no_file(full: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # which would be cut short too, and be read by others

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    with start(full.database, "backup", tmp_path / "file", preexec_fn=bound) as process:
        _, errors = process.communicate()
    assert process.returncode == 1
    assert "File too large" in errors
    assert list(tmp_path.glob("file*")) == []
