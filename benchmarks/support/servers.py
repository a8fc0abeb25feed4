"""Databases and exporters of the benchmarks."""

from __future__ import annotations

import contextlib
import http.server
import math
import os
import re
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil
import psycopg
from psycopg import conninfo

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, DatabaseUnavailable
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.embedded import CONFIGURATION, EmbeddedServer

__all__ = ["Kind", "exporter", "installed_timescale", "own_database", "server_seconds", "streaming_replica"]


@dataclass(frozen=True, slots=True)
class Installation:
    """PostgreSQL installation on this machine, described by its ``pg_config``."""

    binaries: Path
    major: int
    modules: Path

    @property
    def timescaledb(self) -> bool:
        """Return whether it has TimescaleDB Community."""
        return any(self.modules.glob("timescaledb-tsl-*.so"))

    def has(self, libraries: Iterable[str]) -> bool:
        """Return whether it has these libraries."""
        return all((self.modules / f"{name}.so").exists() for name in libraries)

    @classmethod
    def of(cls, program: Path) -> Installation:
        """Query the program `program`."""

        def option_of(option: str) -> str:
            return subprocess.run([program, option], capture_output=True, text=True, check=True).stdout.strip()

        version = re.search(r"\d+", option_of("--version"))
        assert version is not None
        return cls(Path(option_of("--bindir")), int(version.group()), Path(option_of("--pkglibdir")))


def installations() -> list[Installation]:
    """Return every PostgreSQL server of this machine, the newest first, or only that of ``BENCH_TEST_PG_CONFIG``.

    Raises
    ------
    BadRequest
        ``BENCH_TEST_PG_CONFIG`` names no ``pg_config`` of a server.
    """
    if named := os.environ.get("BENCH_TEST_PG_CONFIG"):
        program = shutil.which(named)
        found = [Installation.of(Path(program))] if program else []
        if not any((one.binaries / "initdb").exists() for one in found):
            raise BadRequest(f"BENCH_TEST_PG_CONFIG: {named} is not the pg_config of a PostgreSQL server")
        return found
    on_path = [Path(path)] if (path := shutil.which("pg_config")) else []
    found = [Installation.of(program) for program in [*on_path, *Path("/usr/lib/postgresql").glob("*/bin/pg_config")]]
    # Without a server's programs it belongs to a package for compiling clients.
    servers = {one for one in found if (one.binaries / "initdb").exists()}
    return sorted(servers, key=lambda one: (one.major, str(one.binaries)), reverse=True)


def installed_timescale(
    folder: Path,
    edition: str = "timescale",
    configuration: str = "",
    *,
    stock: bool = False,
    libraries: Sequence[str] = (),
) -> EmbeddedServer | None:
    """Return a server in `folder` by the newest PostgreSQL of this machine with TimescaleDB Community, if any.

    A `stock` one has only the settings that TimescaleDB requires. `libraries` are further required libraries, such as
    ``auto_explain``.
    """
    found = next((one for one in installations() if one.timescaledb and one.has(libraries)), None)
    if found is None:
        return None
    needed = "shared_preload_libraries = 'timescaledb'\n"
    ours = (
        f"{CONFIGURATION}timescaledb.license = '{edition}'\n"
        "timescaledb.telemetry_level = 'off'\n"
        "max_worker_processes = 32\n"
        "timescaledb.max_background_workers = 16\n"
    )
    configuration = needed + ("" if stock else ours) + configuration
    return EmbeddedServer(folder, binaries=found.binaries, major=found.major, configuration=configuration)


def installed_postgresql(folder: Path) -> EmbeddedServer:
    """Return a server in `folder` without our settings, by the newest PostgreSQL of this machine, else by the wheel's."""
    for found in installations():
        return EmbeddedServer(folder, binaries=found.binaries, major=found.major, configuration="")
    return EmbeddedServer(folder, configuration="")


class Kind(StrEnum):
    """Kind of database server: with our settings, or as a package installs it."""

    POSTGRESQL = "postgresql"
    TIMESCALEDB = "timescaledb"
    STOCK_POSTGRESQL = "stock-postgresql"
    STOCK_TIMESCALEDB = "stock-timescaledb"

    def make(self, folder: Path) -> EmbeddedServer:
        """Return such a server with its data in `folder`.

        Raises
        ------
        DatabaseUnavailable
            No TimescaleDB Community is installed.
        """
        if self is Kind.POSTGRESQL:
            return EmbeddedServer(folder)
        if self is Kind.STOCK_POSTGRESQL:
            return installed_postgresql(folder)
        if server := installed_timescale(folder, stock=self is Kind.STOCK_TIMESCALEDB):
            return server
        raise DatabaseUnavailable("no TimescaleDB: set BENCH_DSN, or install timescaledb-2-postgresql-18")


def server_seconds(database: Database, elsewhere: float = math.nan) -> float:
    """Return the CPU time of the database server with its child processes, `elsewhere` for another host."""
    with database.session() as connection:
        try:
            server = psutil.Process(connection.info.backend_pid).parent()
            if server is None or server.name() != "postgres":
                return elsewhere
            times = [process.cpu_times() for process in (server, *server.children())]
        except psutil.Error:
            return elsewhere
    return sum(one.user + one.system + one.children_user + one.children_system for one in times)


@contextlib.contextmanager
def own_database(name: str, kind: Kind | None = None, *, default: Kind = Kind.POSTGRESQL) -> Iterator[Database]:
    """Yield a new database: on a server of `kind`, else on that of ``BENCH_DSN``, else on one of kind `default`.

    A server of a kind is created in a temporary folder.

    Raises
    ------
    DatabaseUnavailable
        No such server is installed.
    """
    configured = Settings.load()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if kind is None and configured.dsn is not None:
            with _made(configured.dsn, name, Path(folder)) as database:
                yield database
            return
        server = (kind or default).make(Path(folder) / "server")
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
    try:
        with Database(Settings(home=home, dsn=conninfo.make_conninfo(server, dbname=own))) as database:
            yield database
    finally:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f'drop database "{own}" with (force)'.encode())


@contextlib.contextmanager
def streaming_replica(primary: EmbeddedServer, folder: Path) -> Iterator[EmbeddedServer]:
    """Yield a streaming replica of a running server, created as in ``docs/how-to/replica.md``, with a slot of its own."""
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
def exporter(exposition: Callable[[], bytes]) -> Iterator[str]:
    """Serve the result of `exposition` at each request, and yield the address, ``host:port``."""

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            text = exposition()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
