"""Database server that a campaign kills, freezes or makes read-only."""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Iterator

import psutil
import psycopg

from hypergauge.core.system.uptime import uptime
from hypergauge.sql.server.embedded import EmbeddedServer

__all__ = ["DisturbedServer"]

_END_SECONDS = 10.0


class DisturbedServer:
    """Database server that can be disturbed.

    Attributes
    ----------
    disturbed
        End of the last disturbance, by `uptime`; infinite during one.
    """

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self.disturbed = -math.inf

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

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all its processes by SIGSTOP; on leaving they continue."""
        with self._disturbing():
            self._signal(signal.SIGSTOP)
            try:
                yield
            finally:
                self._signal(signal.SIGCONT)

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

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
