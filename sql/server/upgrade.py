"""Upgrade of the embedded database to a new major version: copy, compare, swap.

The old data stay unchanged until the copy is verified, and afterwards under another name. After an interrupt at any
point, the next start finds complete old or new data, and the next upgrade starts from the beginning.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from psycopg import sql

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import DatabaseUnavailable
from hypergauge.core.files.file_lock import FileLock
from hypergauge.core.files.run_folder import sync_folder
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.server.postmaster import postmaster
from hypergauge.sql.server.programs import Programs

__all__ = ["Upgraded", "upgrade"]

# Space for the new server's own files and WAL, in addition to the copy.
WORKING_BYTES = 256 << 20

_TIMEOUT_SECONDS = 120.0
# Start of our and the user's part of postgresql.conf; the part above belongs to the version that wrote it.
_OURS = "\n# Written by hypergauge"


@dataclass(frozen=True, slots=True)
class Upgraded:
    """Completed upgrade; `kept` is the folder of the old data, `rows` the number of rows in both."""

    old: int
    new: int
    kept: Path
    rows: int


def upgrade(server: EmbeddedServer, notify: Callable[[str], None] = lambda _: None) -> Upgraded | None:
    """Upgrade the data of `server` to the major version of its programs; return ``None`` if they have it already.

    Raises
    ------
    DatabaseUnavailable
        The database is in use, the disk lacks space for the copy, or the copy differs from the old data.
    """
    with server.alone():
        server.complete()
        old = server.made_by
        if old is None:
            raise DatabaseUnavailable(f"there is no embedded database in {server.folder}")
        if old == server.programs.major:
            _stop(server.programs, server.data)  # still running after the processes that used it were killed
            return None
        if old > server.programs.major:
            raise DatabaseUnavailable(f"the data were made by PostgreSQL {old}: use the release that made them")
        programs = Programs(old)
        # Remains of an upgrade that was interrupted before the swap: the old data may have changed since.
        shutil.rmtree(server.proven, ignore_errors=True)
        with _workplace(server, programs) as (workplace, lock):
            _check_room(server.data)
            notify(f"Counting the rows in PostgreSQL {old} …")
            before = _contents(server, programs, server.data, lock)
            notify(f"Copying to PostgreSQL {server.programs.major} …")
            new = _copy(server, programs, workplace, lock)
            notify("Counting the copied rows …")
            after = _contents(server, server.programs, new, lock)
            if before != after:
                differing = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
                raise DatabaseUnavailable(f"the copy differs in {', '.join(differing)}; the old data are unchanged")
            kept = _exchange(server, new, old)
        return Upgraded(old, server.programs.major, kept, sum(after.values()))


@contextlib.contextmanager
def _workplace(server: EmbeddedServer, programs: Programs) -> Iterator[tuple[Path, int]]:
    """Provide a new folder, and a lock that all started programs inherit. A failure leaves only the old data."""
    lock = _clear(server, programs)
    try:
        workplace = Path(tempfile.mkdtemp(prefix="upgrading-", dir=server.folder))
        yield workplace, lock.fileno()
    finally:
        lock.release()
        _clear(server, programs).release()


def _clear(server: EmbeddedServer, programs: Programs) -> FileLock:
    """Stop and remove the remains of an upgrade. Return the lock that proves that none of its programs is running.

    Programs of a killed upgrade continue by themselves. Without their servers and folders they fail at their next
    step. Until then they use the old data too, so the lock lasts until the last of them has ended.
    """
    lock = FileLock(server.folder / "upgrade.lock")
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    try:
        alone = False
        while True:
            _stop(programs, server.data)
            for left in server.folder.glob("upgrading-*"):
                server.programs.stop(left / "data")
                shutil.rmtree(left, ignore_errors=True)  # programs of the interrupted upgrade may still write there
            if alone:
                return lock
            alone = lock.take(0.1)  # then one more pass: no program is left to add files
            if not alone and time.monotonic() > deadline:
                raise DatabaseUnavailable("an upgrade that was interrupted has not ended yet; retry")
    except BaseException:
        lock.release()
        raise


def _stop(programs: Programs, data: Path) -> None:
    if not programs.stop(data) and postmaster(data) is not None:
        raise DatabaseUnavailable(f"the server on {data} does not stop")


def _check_room(data: Path) -> None:
    needed = sum(path.lstat().st_size for path in data.rglob("*") if path.is_file())
    free = shutil.disk_usage(data).free
    if free < needed + WORKING_BYTES:
        raise DatabaseUnavailable(
            f"the copy takes {needed >> 20} MiB, and {WORKING_BYTES >> 20} MiB to work, "
            f"but there are {free >> 20} MiB free on the disk of {data}"
        )


def _contents(server: EmbeddedServer, programs: Programs, data: Path, lock: int) -> dict[str, int]:
    """Start a server on `data`, count the rows of every table, and stop it in order."""
    programs.start(data, server.socket_dir, server.folder / "server.log", held=[lock])
    try:
        counts = {}
        with Database(Settings(home=server.folder, dsn=server.dsn)).session() as connection:
            tables = connection.execute(
                """
                select schemaname, tablename from pg_tables
                where schemaname not in ('pg_catalog', 'information_schema') order by 1, 2
                """
            ).fetchall()
            for schema, table in tables:
                row = connection.execute(
                    sql.SQL("select count(*) from {}").format(sql.Identifier(schema, table))
                ).fetchone()
                counts[f"{schema}.{table}"] = row[0] if row else 0
        return counts
    finally:
        _stop(programs, data)


def _copy(server: EmbeddedServer, programs: Programs, workplace: Path, lock: int) -> Path:
    new = workplace / "data"
    new.mkdir(mode=0o700)
    text = (server.data / "postgresql.conf").read_text()
    ours = text[text.index(_OURS) :] if _OURS in text else server.configuration
    server.programs.make(new, "--no-sync", "--no-data-checksums", configuration=ours, held=[lock])
    shutil.chown(workplace, *_owner(new))
    server.programs.run(
        "pg_upgrade", "--copy", f"--old-bindir={programs.folder}", f"--new-bindir={server.programs.folder}",
        f"--old-datadir={server.data}", f"--new-datadir={new}", f"--socketdir={server.socket_dir}", "--username=postgres",
        cwd=workplace, held=[lock],
    )  # fmt: skip
    # Earlier versions have no checksums by default, and pg_upgrade needs equal settings; enable them after the copy.
    server.programs.run("pg_checksums", "--enable", "-D", str(new), held=[lock])
    return new


def _exchange(server: EmbeddedServer, new: Path, old: int) -> Path:
    """Replace the old data with the new data, in steps that `EmbeddedServer.complete` can resume."""
    new.rename(server.proven)
    kept = server.folder / f"data-{old}"
    again = 1
    while kept.exists():
        again += 1
        kept = server.folder / f"data-{old}-{again}"
    sync_folder(server.folder)
    server.data.rename(kept)
    server.proven.rename(server.data)
    sync_folder(server.folder)
    return kept


def _owner(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_uid, status.st_gid
