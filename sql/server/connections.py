"""Several connections to one database that share work."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Self, TypeVar

import psycopg

from hypergauge.core.errors import DatabaseUnavailable
from hypergauge.sql.server.database import Connection, another

__all__ = ["Connections"]

T = TypeVar("T")
R = TypeVar("R")

_CANCEL_SECONDS = 0.05


class Connections:
    """Connections that share work, each in a thread of its own."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self._connections = connections
        self._stopped = threading.Event()

    @classmethod
    @contextlib.contextmanager
    def like(cls, connection: Connection, most: int) -> Iterator[Self]:
        """Open up to `most` connections like `connection`, at least one; fewer where the server has no more."""
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(another(connection))]
            with contextlib.suppress(DatabaseUnavailable):
                while len(opened) < most:
                    opened.append(stack.enter_context(another(connection)))
            yield cls(opened)

    def stopped(self) -> bool:
        """Return whether the results are no longer wanted."""
        return self._stopped.is_set()

    def map(self, work: Callable[[Connection, T], R], items: Iterable[T]) -> Generator[R]:
        """Yield the result of `work` for each item, in their order; an error is raised in place of its result.

        A caller that stops early cancels the statements that still run.
        """
        free: SimpleQueue[Connection] = SimpleQueue()
        for connection in self._connections:
            free.put(connection)

        def run(item: T) -> R:
            connection = free.get()
            try:
                return work(connection, item)
            finally:
                free.put(connection)

        pool = ThreadPoolExecutor(len(self._connections), "database")
        futures = [pool.submit(run, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            self._stop(pool, futures)
            raise
        finally:
            pool.shutdown()

    def _stop(self, pool: ThreadPoolExecutor, futures: Sequence[Future[R]]) -> None:
        self._stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)
        # Again, because a cancellation between two statements has no effect.
        while not all(future.done() for future in futures):
            time.sleep(_CANCEL_SECONDS)
            for connection in self._connections:
                with contextlib.suppress(psycopg.Error):
                    connection.cancel_safe(timeout=1)
