"""Database server of a test, in each flavour, that can be stopped and started."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import psycopg
import pytest

from benchmarks.support.servers import installed_timescale
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.embedded import EmbeddedServer
from tests.conftest import HOW_TO_GET_ONE
from tests.support.waiting import HUNG_SECONDS, wait_for

_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class OwnServer:
    """Server with one database, ``postgres``.

    Parameters
    ----------
    folder
        Folder of its data.
    """

    def __init__(self, flavour: Flavour, folder: Path) -> None:
        server = EmbeddedServer(folder) if flavour is Flavour.POSTGRESQL else installed_timescale(folder)
        if server is None:
            pytest.skip(HOW_TO_GET_ONE)
        self._server = server
        self.folder = folder
        self.dsn = self._server.dsn
        self._server.acquire()
        if flavour is Flavour.TIMESCALEDB:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                connection.execute("create extension if not exists timescaledb")

    def stop(self, mode: Literal["fast", "immediate"]) -> None:
        """Stop the server like ``pg_ctl -m fast`` or ``-m immediate``, and wait for its end."""
        pid_file = self.folder / "data" / "postmaster.pid"
        pid = int(pid_file.read_text().split("\n", 1)[0])
        os.kill(pid, _SIGNALS[mode])
        while pid_file.exists():  # the server removes it last, as pg_ctl expects
            time.sleep(0.002)
        self._server.release()

    @property
    def ended(self) -> bool:
        """Return whether the server is stopped; a recovering one is not."""
        return not (self.folder / "data" / "postmaster.pid").exists()

    def start(self) -> None:
        """Start the server if it is stopped."""
        if self.ended:
            self._server.release()
        self._server.acquire()

    def crash(self) -> None:
        """Kill one of its backends, like a host out of memory: it ends all others and recovers."""
        with psycopg.connect(self.dsn) as victim, psycopg.connect(self.dsn, autocommit=True) as other:
            os.kill(victim.info.backend_pid, signal.SIGKILL)
            with contextlib.suppress(psycopg.OperationalError):
                while True:
                    other.execute("select")
        self.wait()

    @contextlib.contextmanager
    def copy_awaited(self) -> Iterator[None]:
        """On leaving, wait until a COPY of samples has begun, and let it continue."""
        with psycopg.connect(self.dsn) as locking, psycopg.connect(self.dsn, autocommit=True) as observer:
            locking.execute("lock table bench.samples in share mode")  # a COPY begins, and then waits for this lock
            yield
            deadline = time.monotonic() + HUNG_SECONDS
            copying = "select from pg_stat_activity where state = 'active' and query ilike 'copy%'"
            while observer.execute(copying).fetchone() is None:
                assert time.monotonic() < deadline, "no COPY began"
                time.sleep(0.005)

    @property
    def answers(self) -> bool:
        """Return whether the server accepts connections."""
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:
            return False
        return True

    def wait(self) -> None:
        """Wait until the server accepts connections."""
        wait_for(lambda: self.answers, "the server")


@contextlib.contextmanager
def own_server(flavour: Flavour, folder: Path) -> Iterator[OwnServer]:
    """Yield a running server of the test; skip without one of the flavour."""
    server = OwnServer(flavour, folder)
    try:
        yield server
    finally:
        server.start()
        server.stop("fast")
