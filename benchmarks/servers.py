"""What benchmarks talk to: a database of their own, on the server that is named or on one that is found; exporters."""

from __future__ import annotations

import contextlib
import http.server
import re
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
from psycopg import conninfo

from bench.config import Settings
from bench.errors import DatabaseUnavailable
from sql.database import Database
from sql.embedded import EmbeddedServer

__all__ = ["exporter", "following", "installed_timescale", "own_database", "timescale"]


@contextlib.contextmanager
def own_database(name: str) -> Iterator[Database]:
    """Yield a database of our own: on the server of ``BENCH_DSN``, else an embedded one in a temporary folder."""
    configured = Settings.load()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if configured.dsn is None:
            with Database(Settings(home=Path(folder))) as database:
                yield database
        else:
            with _made(configured.dsn, name, Path(folder)) as database:
                yield database


@contextlib.contextmanager
def timescale(name: str) -> Iterator[Database]:
    """Yield a TimescaleDB database of our own, on the server of ``BENCH_DSN`` or by an installation of this machine.

    Raises
    ------
    DatabaseUnavailable
        There is neither.
    """
    configured = Settings.load()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if configured.dsn is not None:
            with _made(configured.dsn, name, Path(folder)) as database:
                yield database
            return
        server = installed_timescale(Path(folder) / "server")
        if server is None:
            raise DatabaseUnavailable("no TimescaleDB: set BENCH_DSN, or install timescaledb-2-postgresql-16")
        try:
            with _made(server.acquire(), name, Path(folder)) as database:
                yield database
        finally:
            server.release()


@contextlib.contextmanager
def _made(server: str, name: str, home: Path) -> Iterator[Database]:
    own = f"bench_{name}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'create database "{own}"'.encode())
        available = admin.execute("select from pg_available_extensions where name = 'timescaledb'").fetchone()
    try:
        dsn = conninfo.make_conninfo(server, dbname=own)
        if available is not None:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("create extension if not exists timescaledb")
        with Database(Settings(home=home, dsn=dsn)) as database:
            yield database
    finally:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f'drop database "{own}" with (force)'.encode())


def installed_timescale(folder: Path, licence: str = "timescale", configuration: str = "") -> EmbeddedServer | None:
    """Return a server in `folder` by a PostgreSQL of this machine that has TimescaleDB Community, if there is one."""
    on_path = [Path(path)] if (path := shutil.which("pg_config")) else []
    for program in [*on_path, *sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_config"), reverse=True)]:

        def ask(option: str, program: Path = program) -> str:
            return subprocess.run([program, option], capture_output=True, text=True, check=True).stdout.strip()

        if any(Path(ask("--pkglibdir")).glob("timescaledb-tsl-*.so")) and (
            major := re.search(r"\d+", ask("--version"))
        ):
            configuration += (
                "shared_preload_libraries = 'timescaledb'\n"
                f"timescaledb.license = '{licence}'\n"
                "timescaledb.telemetry_level = 'off'\n"
                "max_worker_processes = 32\n"
                "timescaledb.max_background_workers = 16\n"
            )
            return EmbeddedServer(
                folder, binaries=Path(ask("--bindir")), major=int(major.group()), configuration=configuration
            )
    return None


@contextlib.contextmanager
def following(primary: EmbeddedServer, folder: Path) -> Iterator[EmbeddedServer]:
    """Yield a streaming replica of a server that runs, made as ``docs/replica.md`` says, with a slot of its own."""
    server = EmbeddedServer(folder, binaries=primary.programs.folder, major=primary.programs.major)
    folder.mkdir(parents=True)
    slot = f"replica_{uuid.uuid4().hex[:8]}"
    source = ("-h", str(primary.socket_dir), "-U", "postgres", "-D", str(server.data))
    primary.programs.run("pg_basebackup", *source, "-c", "fast", "-X", "stream", "-R", "-C", "-S", slot, "--no-sync")
    with (server.data / "postgresql.conf").open("a") as file:
        file.write("hot_standby_feedback = on\n")
    server.acquire()
    try:
        yield server
    finally:
        server.release()


@contextlib.contextmanager
def exporter(body: Callable[[], bytes]) -> Iterator[str]:
    """Serve what `body` gives at each request, and yield the address, ``host:port``."""

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            text = body()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Be silent."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
