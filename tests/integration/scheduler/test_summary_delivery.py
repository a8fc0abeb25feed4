"""Delivery of summaries to MLflow: after an outage too, and once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from mlflow.tracking import MlflowClient

from hypergauge.scheduler.tracking.summary_delivery import SummaryDelivery, deliver_summaries
from hypergauge.scheduler.tracking.tracking import OWN_TAG, Tracking
from hypergauge.sql.runs.tracked_summaries import untracked
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.rows import value
from tests.support.servers.mlflow import Proxy, mlflow_server
from tests.support.waiting import wait_for
from tests.support.world import World

one_flavour = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real server."""
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as port:
        yield port


def ended_run(world: World, server: int, threads: float = 1.5) -> tuple[str, str]:
    """Return our id and MLflow's of a run that has ended, with samples; its summary is not written."""
    start = float(time.time() // 600 * 600 - 3600)
    run_id = world.run(start, start + 10)
    tracking = Tracking(f"http://127.0.0.1:{server}")
    mlflow_run_id = tracking.create_run(run_id, "test", "a run", {}, {OWN_TAG: "20/1/1@1"}, start)
    world.connection.execute("update runs set mlflow_run_id = %s where run_id = %s", (mlflow_run_id, run_id))
    times = [start + 1 + at for at in range(9)]
    world.write(
        world.gauge("bench_process_proportional_memory_bytes", times, [1e6] * 8 + [3e6], {"run_id": run_id}),
        world.gauge("node_memory_MemTotal_bytes", times, [8e9] * 9),
    )
    return run_id, mlflow_run_id


def test_a_summary_is_logged_once_and_again_when_it_is_written_anew(world: World, server: int) -> None:
    uri, client = f"http://127.0.0.1:{server}", MlflowClient(f"http://127.0.0.1:{server}")
    run_id, mlflow_run_id = ended_run(world, server)
    client.log_metric(mlflow_run_id, "loss", 0.5)
    client.log_metric(mlflow_run_id, "system/cpu_utilization_percentage", 50.0)
    world.connection.execute("update runs set summarised = false")
    assert untracked(world.connection, []) == [], "it is not written yet"
    world.connection.execute("select summarise(run_id) from runs")
    assert untracked(world.connection, []) == [run_id]
    assert untracked(world.connection, [run_id]) == []

    assert deliver_summaries(world.database, uri, [run_id]) == []
    found = client.get_run(mlflow_run_id).data.metrics
    ours = {name: value for name, value in found.items() if name not in ("loss", "system/cpu_utilization_percentage")}
    assert ours == {"system/memory_used_mean": pytest.approx(11e6 / 9, rel=1e-6), "system/memory_used_max": 3e6}
    assert untracked(world.connection, []) == []
    tracking = Tracking(uri)
    assert {one.key for one in tracking.new_metrics(run_id)} == {"loss", "system/cpu_utilization_percentage"}

    start = value(world.connection, float, "select extract(epoch from started_at)::float8 from runs")
    world.write(
        world.gauge("bench_process_proportional_memory_bytes", [start + 9.5], [2e6], {"run_id": run_id}),
    )
    world.connection.execute("select summarise(run_id) from runs")
    assert untracked(world.connection, []) == [run_id]
    assert deliver_summaries(world.database, uri, [run_id]) == []
    again = client.get_run(mlflow_run_id).data.metrics["system/memory_used_mean"]
    assert again != ours["system/memory_used_mean"]
    assert untracked(world.connection, []) == []


@one_flavour
def test_a_run_of_another_server_stays_to_be_delivered(world: World, server: int) -> None:
    run_id, _ = ended_run(world, server)
    world.connection.execute("update runs set mlflow_run_id = %s", ("0" * 32,))
    world.connection.execute("select summarise(run_id) from runs")
    assert deliver_summaries(world.database, f"http://127.0.0.1:{server}", [run_id]) == [run_id]
    assert untracked(world.connection, []) == [run_id]


@one_flavour
def test_a_server_that_is_away_gets_the_summary_when_it_is_back(world: World, server: int) -> None:
    proxy = Proxy(server)
    client = MlflowClient(f"http://127.0.0.1:{server}")
    _, mlflow_run_id = ended_run(world, server)
    world.connection.execute("select summarise(run_id) from runs")
    attempts: list[float] = []

    def uri() -> str:
        attempts.append(time.monotonic())
        return proxy.url

    with SummaryDelivery(world.database, uri, interval=0.1):
        wait_for(lambda: len(attempts) > 1, "a second attempt")
        assert client.get_run(mlflow_run_id).data.metrics == {}
        proxy.start()
        try:
            wait_for(lambda: untracked(world.connection, []) == [], "the delivery")
        finally:
            proxy.stop()
    assert "system/memory_used_mean" in client.get_run(mlflow_run_id).data.metrics
