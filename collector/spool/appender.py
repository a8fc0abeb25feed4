"""Appender of records to the spool, in batches, outside the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SpoolRecord
from hypergauge.core.errors import BenchError

__all__ = ["Appender"]

_log = logging.getLogger(__name__)

# Records within this time are joined into one record of the spool, up to a number of samples. A thousand scrapes a
# second thus become fifty records. A crash costs no more than without this: the scrapes in flight.
_TOGETHER_SECONDS, _TOGETHER_SAMPLES = 0.02, 10_000


class Appender:
    """Appender of records to the spool, in order. A slow disk does not block its event loop.

    Parameters
    ----------
    spool, access
        The spool, and the access to it: the writer takes from it in another thread, which each record wakes.
    """

    def __init__(self, spool: Spool, access: threading.Condition, metrics: CollectorMetrics) -> None:
        self._spool, self._access, self._metrics = spool, access, metrics
        self._together: list[_Addition] = []  # not appended yet
        self._appending: asyncio.Task[None] | None = None  # of the last record
        self._thread = ThreadPoolExecutor(1, "spooling")

    def add(self, record: SpoolRecord | None, after: Callable[[], None] | None = None) -> asyncio.Task[None]:
        """Append a record, if any, and then call `after`; the task is done when both are done."""
        if self._appending is None or not self._together:
            self._appending = asyncio.create_task(self._append_soon())
        self._together.append(_Addition(record, after))
        return self._appending

    async def stop(self) -> None:
        """Wait until all records are in the spool; safe to call twice."""
        if self._appending is not None:
            await self._appending
        self._thread.shutdown()

    async def _append_soon(self) -> None:
        await asyncio.sleep(_TOGETHER_SECONDS)
        additions, self._together = self._together, []
        await asyncio.get_running_loop().run_in_executor(self._thread, self._append, additions)

    def _append(self, additions: Sequence[_Addition]) -> None:
        for record, following in _joined(additions):
            problem: BenchError | None = None
            with self._access:
                try:
                    if record is not None:
                        self._spool.append(record)
                        self._access.notify()
                except BenchError as error:
                    problem = error
                # Now, since the writer may be in a long statement when the collector is killed.
                self._metrics.count_spool(self._spool)
            for after in following:
                after()
            if problem is not None and record is not None:
                self._metrics.dropped.labels("spool").inc(len(record))
                _log.error("%s", problem)


class _Addition(NamedTuple):
    record: SpoolRecord | None
    after: Callable[[], None] | None


def _joined(additions: Iterable[_Addition]) -> Iterator[tuple[SpoolRecord | None, list[Callable[[], None]]]]:
    """Yield the records joined, up to the limit of samples, each with the calls that follow it."""
    together: list[SpoolRecord] = []
    following: list[Callable[[], None]] = []
    count = 0
    for record, after in additions:
        if record is not None:
            other = together and record.numbering != together[0].numbering
            if other or (together and count + len(record) > _TOGETHER_SAMPLES):
                yield SpoolRecord.joined(together), following
                together, following, count = [], [], 0
            together.append(record)
            count += len(record)
        if after is not None:
            following.append(after)
    if together or following:
        yield SpoolRecord.joined(together) if together else None, following
