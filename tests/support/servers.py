"""Database server of a test's own, in each flavour, that can be stopped and started."""

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

from benchmarks.servers import installed_timescale
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.embedded import EmbeddedServer
from tests.conftest import HOW_TO_GET_ONE
from tests.support.waiting import HUNG_SECONDS, wait_for

_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class OwnServer:
    """A server whose one database ``postgres`` is the test's.

    Parameters
    ----------
    folder
        Where its data lie; what is below belongs to it alone.
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
        """Stop it as ``pg_ctl -m fast`` or ``-m immediate`` would, at once, and wait until it is gone."""
        pid_file = self.folder / "data" / "postmaster.pid"
        pid = int(pid_file.read_text().split("\n", 1)[0])
        os.kill(pid, _SIGNALS[mode])
        while pid_file.exists():  # the last thing that it takes away, as pg_ctl has it
            time.sleep(0.002)
        self._server.release()

    @property
    def gone(self) -> bool:
        """Whether it does not run; one that recovers does."""
        return not (self.folder / "data" / "postmaster.pid").exists()

    def start(self) -> None:
        """Start it where it does not run."""
        if self.gone:
            self._server.release()
        self._server.acquire()

    def crash(self) -> None:
        """Kill one of its processes at work, as a host without memory does: it ends all others and recovers."""
        with psycopg.connect(self.dsn) as victim, psycopg.connect(self.dsn, autocommit=True) as other:
            os.kill(victim.info.backend_pid, signal.SIGKILL)
            with contextlib.suppress(psycopg.OperationalError):
                while True:
                    other.execute("select")
        self.wait()

    @contextlib.contextmanager
    def copy_awaited(self) -> Iterator[None]:
        """On leaving, wait until samples are about to be copied, which they then are."""
        with psycopg.connect(self.dsn) as locking, psycopg.connect(self.dsn, autocommit=True) as asking:
            locking.execute("lock table bench.samples in share mode")  # a COPY begins, and then waits for this
            yield
            deadline = time.monotonic() + HUNG_SECONDS
            copying = "select from pg_stat_activity where state = 'active' and query ilike 'copy%'"
            while asking.execute(copying).fetchone() is None:
                assert time.monotonic() < deadline, "no COPY was begun"
                time.sleep(0.005)

    @property
    def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:
            return False
        return True

    def wait(self) -> None:
        """Wait until it answers."""
        wait_for(lambda: self.answers, "the server")


@contextlib.contextmanager
def own_server(flavour: Flavour, folder: Path) -> Iterator[OwnServer]:
    """Yield a running server of the test's own; skips where there is none of the flavour."""
    server = OwnServer(flavour, folder)
    try:
        yield server
    finally:
        server.start()
        server.stop("fast")
