"""Software metrics find their way into the database while runs go on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from bench.errors import BenchError, TrackingUnavailable
from scheduler.tracking import Tracking
from sql.database import Database
from sql.software import store_software_metrics

__all__ = ["SoftwareWatch"]

# For a question to the server that is under way at the end; what it brings is not needed any more.
_PATIENCE_SECONDS = 2.0


class SoftwareWatch:
    """Fills ``software_metrics`` every few seconds, in a thread: a slow tracking server must not delay anything.

    Parameters
    ----------
    running
        Returns the ids of the runs that go on.
    """

    def __init__(
        self,
        database: Database,
        tracking: Tracking | None,
        running: Callable[[], list[str]],
        interval: float = 5.0,
    ) -> None:
        self._database, self._tracking, self._running, self._interval = database, tracking, running, interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="software-metrics", daemon=True)

    def __enter__(self) -> Self:
        if self._tracking is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._tracking is not None:
            self._thread.join(_PATIENCE_SECONDS)

    def _work(self) -> None:
        while not self._ended.wait(self._interval):
            with contextlib.suppress(BenchError):  # the last, complete filling is the delivery's
                self._fill()

    def _fill(self) -> None:
        assert self._tracking is not None
        with self._database.session() as connection:
            for run_id in self._running():
                if self._ended.is_set():
                    return
                with contextlib.suppress(TrackingUnavailable):
                    figures = self._tracking.new_metrics(run_id)
                    if not self._ended.is_set():
                        store_software_metrics(connection, run_id, figures)
