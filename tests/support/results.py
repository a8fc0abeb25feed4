"""Outcomes of runs for tests of results: software metrics, and early ends."""

from __future__ import annotations

from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from tests.support.world import World, rows

__all__ = ["fail", "log", "workloads"]


def workloads(world: World) -> list[int]:
    """Return the ids of all workloads."""
    return [row[0] for row in rows(world, "select workload_id from workloads order by workload")]


def fail(world: World, run: str, status: str = "failed") -> None:
    """End a run early."""
    world.connection.execute("update runs set status = %s where run_id = %s", (status, run))


def log(world: World, run: str, key: str, *values: float) -> None:
    """Log a value of a software metric at each second from the run's start on."""
    start = rows(world, "select extract(epoch from started_at)::float8 from runs where run_id = %s", run)[0][0]
    store_software_metrics(
        world.connection, run, [SoftwareMetric(key, n, start + n, value) for n, value in enumerate(values)]
    )
