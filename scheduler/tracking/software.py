"""Copy of software metrics from MLflow to the database, during runs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

from hypergauge.core.errors import TrackingUnavailable
from hypergauge.core.system.periodic import Periodic
from hypergauge.scheduler.tracking.tracking import Tracking
from hypergauge.sql.ingest.software import store_software_metrics
from hypergauge.sql.server.database import Database

__all__ = ["SoftwareWatch"]

# Longest wait for a request in progress at the end; its result is no longer needed.
_TIMEOUT_SECONDS = 2.0


class SoftwareWatch:
    """Background copy to ``software_metrics`` every few seconds, so that a slow tracking server delays nothing.

    Parameters
    ----------
    running
        Function that returns the ids of running runs.
    """

    def __init__(
        self,
        database: Database,
        tracking: Tracking | None,
        running: Callable[[], list[str]],
        interval: float = 5.0,
    ) -> None:
        self._database, self._tracking, self._running = database, tracking, running
        self._fillings = Periodic("software metrics", self._fill, interval, level=logging.INFO)

    def __enter__(self) -> Self:
        if self._tracking is not None:
            self._fillings.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._fillings.end(_TIMEOUT_SECONDS)

    def _fill(self) -> None:
        assert self._tracking is not None
        with self._database.session() as connection:
            for run_id in self._running():
                if self._fillings.ending:
                    return
                with contextlib.suppress(TrackingUnavailable):
                    metrics = self._tracking.new_metrics(run_id)
                    if not self._fillings.ending:
                        store_software_metrics(connection, run_id, metrics)
