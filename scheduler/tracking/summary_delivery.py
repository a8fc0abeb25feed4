"""Delivery of run summaries to MLflow, in the background.

The collector writes summaries some seconds after a run has ended. A thread of the collector's command watches for them
and starts a process that delivers them, because importing MLflow takes 1 s of CPU and memory. Summaries that cannot be
delivered now are delivered later, by any collector.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError, TrackingUnavailable
from hypergauge.core.system.periodic import Periodic
from hypergauge.scheduler.tracking.summary_metrics import summary_metrics
from hypergauge.sql.queries.summaries import summaries
from hypergauge.sql.runs.tracked_summaries import mark_tracked, untracked, untracked_runs
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

__all__ = ["SummaryDelivery", "deliver_summaries"]

_INTERVAL_SECONDS, _LONGEST_SECONDS = 5.0, 60.0
_ANSWER_SECONDS = 10.0
_NICE = 19


class SummaryDelivery:
    """Background delivery of summaries inside a ``with`` block; the end terminates a delivery in progress.

    Parameters
    ----------
    tracking_uri
        Function that returns the current URI of MLflow; ``None`` if there is none.
    """

    def __init__(
        self, database: Database, tracking_uri: Callable[[], str | None], interval: float = _INTERVAL_SECONDS
    ) -> None:
        self._database, self._tracking_uri = database, tracking_uri
        # One connection for all looks: a new one every few seconds would cost the server as much as all of the writes.
        self._session = Session(database, timeout=0)
        self._unknown: set[str] = set()
        self._deliveries = Periodic("delivery of summaries", self._deliver, interval, longest=_LONGEST_SECONDS)

    def __enter__(self) -> Self:
        self._deliveries.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._deliveries.end():
            self._session.close()

    def _deliver(self) -> None:
        run_ids = self._session(untracked, self._unknown)
        uri = self._tracking_uri() if run_ids else None
        if uri is None:
            return
        settings = self._database.settings
        command = [sys.executable, "-P", "-m", "hypergauge.scheduler.tracking.summary_delivery", *run_ids]
        environment = {**os.environ, **settings.environment(), "MLFLOW_TRACKING_URI": uri}
        with subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            while process.poll() is None:
                if self._deliveries.wait(0.1):
                    process.terminate()  # the next collector logs the rest
            self._unknown |= set(process.communicate()[0].split())
        if process.returncode and not self._deliveries.ending:
            raise TrackingUnavailable("MLflow was not reached")


def deliver_summaries(database: Database, uri: str, run_ids: Sequence[str]) -> list[str]:
    """Log the summaries of runs to MLflow as metrics; return the ids of runs that MLflow does not know.

    Raises
    ------
    TrackingUnavailable
        The server does not answer.
    """
    from hypergauge.scheduler.tracking.tracking import Tracking

    tracking = Tracking(uri)
    if not tracking.answers(_ANSWER_SECONDS):
        raise TrackingUnavailable("MLflow does not answer")
    unknown = []
    with database.session() as connection:
        for run in untracked_runs(connection, run_ids):
            metrics = summary_metrics(summaries(connection, [run.run_id]), simulated=run.simulated)
            if tracking.log_metrics(run.mlflow_run_id, metrics, time.time()):
                mark_tracked(connection, run)
            else:
                unknown.append(run.run_id)
    return unknown


def main(run_ids: Sequence[str]) -> int:
    """Deliver summaries in this process; write the ids of runs that MLflow does not know to standard output."""
    os.nice(_NICE)  # low priority, so that measured runs are not disturbed
    settings = Settings.load()
    assert settings.tracking_uri is not None
    try:
        with Database(settings) as database:
            sys.stdout.write("\n".join(deliver_summaries(database, settings.tracking_uri, run_ids)))
    except BenchError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
