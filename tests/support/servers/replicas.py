"""Real primary and its streaming replica, of either flavour."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from benchmarks.support.servers import installed_timescale, streaming_replica
from hypergauge.core.config.settings import Settings
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.embedded import EmbeddedServer
from tests.conftest import HOW_TO_GET_ONE, running
from tests.support.waiting import HUNG_SECONDS


@dataclass
class Replicated:
    """Migrated database and its replica.

    Attributes
    ----------
    settings
        Settings with both, the replica as ``bench_reader``.
    replica
        Connection string of the replica as superuser.
    """

    database: Database
    settings: Settings
    replica: psycopg.Connection

    def reader(self, **changes: str) -> Settings:
        """Return the settings with another login, or database, on the replica."""
        return replace(self.settings, read_dsn=conninfo.make_conninfo(self.settings.read_dsn or "", **changes))

    def catch_up(self) -> None:
        """Wait until the replica has all rows of the primary."""
        with psycopg.connect(self.database.dsn, autocommit=True) as primary:
            position = primary.execute("select pg_current_wal_lsn()").fetchone()
        assert position is not None
        deadline = time.monotonic() + HUNG_SECONDS
        while self.replica.execute("select pg_last_wal_replay_lsn() >= %s", position).fetchone() != (True,):
            assert time.monotonic() < deadline, "the replica does not catch up"
            time.sleep(0.02)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the replica's replay within the context; on leaving it catches up."""
        self.replica.execute("select pg_wal_replay_pause()")
        while self.replica.execute("select pg_get_wal_replay_pause_state()").fetchone() != ("paused",):
            time.sleep(0.01)
        try:
            yield
        finally:
            self.replica.execute("select pg_wal_replay_resume()")
            self.catch_up()


@contextlib.contextmanager
def replicated(flavour: Flavour, folder: Path) -> Iterator[Replicated]:
    """Yield a primary and its replica; skip without a server of the flavour or pg_basebackup."""
    server = EmbeddedServer(folder / "primary")
    if flavour is Flavour.TIMESCALEDB:
        found = installed_timescale(folder / "primary")
        if found is None:
            pytest.skip(HOW_TO_GET_ONE)
        server = found
    if not (server.programs.folder / "pg_basebackup").exists():
        pytest.skip(f"there is no pg_basebackup in {server.programs.folder}")
    with running(server) as dsn:
        if flavour is Flavour.TIMESCALEDB:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("create extension if not exists timescaledb")
        settings = Settings(home=folder / "home", dsn=dsn)
        with Database(settings) as database, streaming_replica(server, folder / "replica") as follower:
            with database.session() as connection:
                connection.execute("alter role bench_reader login")
            reads = conninfo.make_conninfo(follower.dsn, user="bench_reader")
            with psycopg.connect(follower.dsn, autocommit=True) as replica:
                made = Replicated(database, replace(settings, read_dsn=reads), replica)
                made.catch_up()
                yield made
