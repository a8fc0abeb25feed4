"""Real databases for the tests: the embedded PostgreSQL, and TimescaleDB Community where there is one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings as hypothesis_settings
from psycopg import conninfo

from benchmarks.support.servers import installed_timescale
from hypergauge.core.config.settings import Settings
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.embedded import CONFIGURATION, EmbeddedServer

Command = Callable[..., tuple[int, str, str]]
NewFolder = Callable[[], Path]

# Commands keep to the width that it names, and pytest-xdist sets it in its workers.
os.environ.pop("COLUMNS", None)

# The duration of an example means nothing where other tests run at the same time.
hypothesis_settings.register_profile("timeless", hypothesis_settings.default, deadline=None)
hypothesis_settings.load_profile("timeless")

# Servers end with the tests: what they write need not outlive the machine. JIT is on, as on any server by default.
CARELESS = "fsync = off\nfull_page_writes = off\njit = on\n"
_ROOM_FOR_SERVERS = 4 << 30  # bytes: four workers, each with two servers of some 100 MiB and the databases of a test
HOW_TO_GET_ONE = (
    "no TimescaleDB Community found: set BENCH_TEST_TIMESCALE_DSN to a server where databases may be created, or "
    "install timescaledb-2-postgresql-18 from Timescale's package repository, or start Docker"
)


@contextlib.contextmanager
def running(server: EmbeddedServer) -> Iterator[str]:
    """Yield the connection string of a throw-away server."""
    try:
        yield server.acquire()
    finally:
        server.release()


@contextlib.contextmanager
def timescale_server(folder: Path) -> Iterator[str]:
    """Yield the connection string of a TimescaleDB Community server, or skip."""
    if dsn := os.environ.get("BENCH_TEST_TIMESCALE_DSN"):
        yield dsn
    elif server := installed_timescale(folder, configuration=CARELESS):
        with running(server) as dsn:
            yield dsn
    elif (
        shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
    ):
        from testcontainers.postgres import PostgresContainer

        with PostgresContainer("timescale/timescaledb:latest-pg18", driver=None) as container:
            yield container.get_connection_url()
    elif os.environ.get("BENCH_REQUIRE_TIMESCALE") == "1":
        pytest.fail(HOW_TO_GET_ONE, pytrace=False)
    else:
        pytest.skip(HOW_TO_GET_ONE)


@pytest.fixture(scope="session")
def new_folder() -> Iterator[NewFolder]:
    """Make a folder at each call, outside pytest's own, whose paths can be long for a Unix socket.

    A worker that comes back to a module sets its fixtures up again, so none of them has a folder by a fixed name.
    """
    with tempfile.TemporaryDirectory(prefix="bench-tests-") as folder:
        yield lambda: Path(tempfile.mkdtemp(prefix="", dir=folder))


@pytest.fixture(scope="session")
def memory_folder(new_folder: NewFolder) -> Iterator[Path]:
    """A short folder in memory where there is room: a database is a thousand small files, and each test has its own."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < _ROOM_FOR_SERVERS:
        yield new_folder()
        return
    with tempfile.TemporaryDirectory(prefix="bench-tests-", dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgresql_dsn(memory_folder: Path) -> Iterator[str]:
    """A running embedded PostgreSQL."""
    with running(EmbeddedServer(memory_folder / "postgresql", configuration=CONFIGURATION + CARELESS)) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def timescaledb_dsn(memory_folder: Path) -> Iterator[str]:
    """A running TimescaleDB Community; skips where there is none."""
    with timescale_server(memory_folder / "timescaledb") as dsn:
        yield dsn


@pytest.fixture(scope="session")
def complete_dsn(memory_folder: Path) -> Iterator[str]:
    """A TimescaleDB in a PostgreSQL with its contrib modules and its compiler, as packages bring it; skips where none is."""
    libraries = ["auto_explain", "llvmjit"]
    server = installed_timescale(memory_folder / "complete", configuration=CARELESS, libraries=libraries)
    if server is None:
        pytest.skip("no PostgreSQL with contrib modules, LLVM and TimescaleDB is installed")
    with running(server) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def postgresql_template(postgresql_dsn: str) -> Iterator[str]:
    """The name of a migrated database to be copied."""
    with template(postgresql_dsn, timescaledb=False) as name:
        yield name


@pytest.fixture(scope="session")
def timescaledb_template(timescaledb_dsn: str) -> Iterator[str]:
    """The name of a migrated database to be copied, whose jobs do not run by themselves."""
    with template(timescaledb_dsn, timescaledb=True) as name:
        yield name


@pytest.fixture
def apache_dsn(new_folder: NewFolder) -> Iterator[str]:
    """A database with TimescaleDB under its Apache license; skips where none can be had."""
    if (server := installed_timescale(new_folder() / "apache", edition="apache")) is None:
        pytest.skip("no TimescaleDB is installed with a PostgreSQL of this machine")
    with running(server) as dsn, own_database(dsn, timescaledb=True) as own:
        yield own


@pytest.fixture(
    params=[
        pytest.param(Flavour.POSTGRESQL, id="postgresql"),
        pytest.param(Flavour.TIMESCALEDB, id="timescaledb", marks=pytest.mark.timescale),
    ]
)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """Each flavour, one after the other."""
    chosen: Flavour = request.param
    return chosen


@contextlib.contextmanager
def own_database(server: str, *, timescaledb: bool, template: str = "template0") -> Iterator[str]:
    """Yield the connection string of a new database on `server`, which is dropped in the end."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'create database "{name}" template "{template}"'.encode())
    own = conninfo.make_conninfo(server, dbname=name)
    if timescaledb:
        with psycopg.connect(own, autocommit=True) as connection:
            connection.execute("create extension if not exists timescaledb")
    yield own
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'drop database "{name}" with (force)'.encode())


@contextlib.contextmanager
def template(server: str, *, timescaledb: bool) -> Iterator[str]:
    """Yield the name of a new database on `server` with our schema and without connections."""
    with own_database(server, timescaledb=timescaledb) as dsn:
        with Database(Settings(home=Path(), dsn=dsn)) as database, database.session() as connection:
            name = connection.info.dbname
            if timescaledb:
                # What jobs do in time, tests do when they mean to: see `World.refresh`.
                connection.execute("select alter_job(job_id, scheduled => false) from timescaledb_information.jobs")
                connection.execute("select _timescaledb_functions.stop_background_workers()")
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f'alter database "{name}" allow_connections false'.encode())
        yield name


@pytest.fixture
def dsn(flavour: Flavour, request: pytest.FixtureRequest) -> Iterator[str]:
    """The connection string of a migrated database of the test's own, in each flavour."""
    server, template = (request.getfixturevalue(f"{flavour}_{name}") for name in ("dsn", "template"))
    with own_database(server, timescaledb=False, template=template) as own:
        yield own


@pytest.fixture(scope="module")
def timescaledb_database(timescaledb_dsn: str) -> Iterator[str]:
    """The connection string of a TimescaleDB database for all tests of a module."""
    with own_database(timescaledb_dsn, timescaledb=True) as own:
        yield own


@pytest.fixture
def settings(dsn: str, new_folder: NewFolder) -> Settings:
    """Settings with a database and a home of the test's own."""
    return Settings(home=new_folder() / "home", dsn=dsn)


@pytest.fixture
def database(settings: Settings, flavour: Flavour) -> Iterator[Database]:
    """A migrated database in each flavour."""
    with Database(replace(settings)) as opened:
        with opened.session() as connection:
            assert inspect(connection).flavour is flavour
        yield opened


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the flavours that ran, so that half a run is not taken for a whole one."""
    passed = [report.nodeid for report in terminalreporter.getreports("passed")]
    ran = [flavour.value for flavour in Flavour if any(f"[{flavour.value}" in node for node in passed)]
    terminalreporter.write_line(f"Database flavours that ran: {', '.join(ran) or 'none'}")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command in an empty folder, to be called with words: its status, its output, and the words of its error output."""
    from hypergauge.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bench", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, " ".join(captured.err.split())

    return run
