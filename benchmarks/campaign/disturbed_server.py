"""Database servers that a campaign kills, stops, fills or makes read-only."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psutil
import psycopg

from hypergauge.core.system.uptime import uptime
from hypergauge.sql.server.embedded import EmbeddedServer

__all__ = ["DisturbedServer", "EmbeddedDisturbedServer", "fill"]

_END_SECONDS = 10.0


class DisturbedServer:
    """Database server of its own that can be disturbed; the campaign starts it again.

    Attributes
    ----------
    folder
        Folder of its data.
    disturbed
        End of the last disturbance, by `uptime`; infinite during one.
    """

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self.folder = server.folder
        self.disturbed = -math.inf

    @property
    def alive(self) -> bool:
        """Return whether its first process runs."""
        return self._server.running

    @property
    def answers(self) -> bool:
        """Return whether it accepts a connection and a query."""
        with contextlib.suppress(psycopg.Error), psycopg.connect(self._server.dsn, connect_timeout=2) as connection:
            connection.execute("select")
            return True
        return False

    def hold(self) -> None:
        """Keep it running until the end of `running`."""

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """Yield the connection string; the server ends with the context, frozen or not."""
        try:
            yield self._server.acquire()
        finally:
            with contextlib.suppress(OSError, psutil.Error):
                self._signal(signal.SIGCONT)
            self._server.release()

    def query(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """Query the database."""
        with psycopg.connect(
            self._server.dsn, options="-csearch_path=bench,bench_internal,bench_dashboard,public", autocommit=True
        ) as connection:
            connection.execute("set default_transaction_read_only = off")
            return connection.execute(query.encode(), values).fetchall()

    def do(self, *statements: str) -> None:
        """Execute statements, also where the server is read-only."""
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute("set default_transaction_read_only = off")
            for statement in statements:
                connection.execute(statement.encode())

    @contextlib.contextmanager
    def killed(self) -> Iterator[None]:
        """Kill it; on leaving it is started again."""
        with self._disturbing():
            processes = self._processes()
            processes[0].kill()
            _, late = psutil.wait_procs(processes, _END_SECONDS)
            for process in late:  # as an init system does: a busy backend does not notice the end of the first process
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(late)
            try:
                yield
            finally:
                one = self._server
                one.programs.start(one.data, one.socket_dir, one.folder / "server.log")

    def kill_backend(self, chance: Random) -> None:
        """Kill one of its backends, as the kernel does without memory: the server ends the others, and recovers."""
        with self._disturbing(), contextlib.suppress(psutil.NoSuchProcess):
            _, *backends = self._processes()
            if backends:
                chance.choice(backends).kill()

    @contextlib.contextmanager
    def frozen(self, *, only_first: bool = False) -> Iterator[None]:
        """Stop all its processes, or `only_first`, by SIGSTOP; on leaving they continue."""
        with self._disturbing():
            self._signal(signal.SIGSTOP, only_first=only_first)
            try:
                yield
            finally:
                with contextlib.suppress(OSError, psutil.Error):  # it may have been replaced meanwhile
                    self._signal(signal.SIGCONT)

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Fill the disk of its data, which must be its own; on leaving there is room again."""
        ballast = self.folder / "ballast"
        with self._disturbing():
            try:
                fill(ballast)
                yield
            finally:
                ballast.unlink(missing_ok=True)

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Make it refuse writes, like a primary that has become a standby."""
        with self._disturbing():
            self.do("alter system set default_transaction_read_only = on", "select pg_reload_conf()")
            try:
                yield
            finally:
                self.do("alter system reset default_transaction_read_only", "select pg_reload_conf()")

    @contextlib.contextmanager
    def _disturbing(self) -> Iterator[None]:
        self.disturbed = math.inf
        try:
            yield
        finally:
            self.disturbed = uptime()

    def _processes(self) -> list[psutil.Process]:
        """Return its processes, the first one before its backends."""
        pid = int((self._server.data / "postmaster.pid").read_text().split("\n", 1)[0])
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]

    def _signal(self, number: signal.Signals, *, only_first: bool = False) -> None:
        processes = self._processes()
        for process in processes[:1] if only_first else processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


class EmbeddedDisturbedServer(DisturbedServer):
    """Embedded server of a ``BENCH_HOME``. The campaign never starts it: commands do, also after a fault."""

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """Yield no connection string; end the server with the context."""
        try:
            yield ""
        finally:
            with contextlib.suppress(OSError, psutil.Error):
                self._signal(signal.SIGCONT)
            self._server.release()
            self._server.programs.stop(self._server.data)

    def hold(self) -> None:
        """See `DisturbedServer.hold`."""
        self._server.acquire()

    @contextlib.contextmanager
    def killed(self) -> Iterator[None]:
        """Kill its first process."""
        with self._disturbing():
            self._processes()[0].kill()
            yield


def fill(ballast: Path) -> None:
    """Leave no room on a disk."""
    with ballast.open("wb") as file:
        free = os.statvfs(ballast.parent)
        for size in (free.f_bavail * free.f_frsize, free.f_frsize):
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
