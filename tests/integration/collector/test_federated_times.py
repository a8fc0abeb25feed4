"""Federated exporters are scraped at times of their own, which `/federate` sends with each line."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hypergauge.insight.comparison.comparison import compare
from hypergauge.sql.runs import experiments, runs
from tests.integration.collector.test_federation import FEDERATE, scrape_lines
from tests.support.world import HOST, World, one, rows

pytestmark = pytest.mark.flavours

SECONDS = 29
GPUS = {HOST: "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4", "node2": "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b5"}


@pytest.fixture
def start() -> float:
    return time.time() // 60 * 60 - 3600


def run_on_both_hosts(world: World, start: float) -> str:
    experiments.claim_experiment(world.connection, 20, name="test", source="test.csv", into=True)
    workload = experiments.open_workload(world.connection, 20, 1)
    run_id = uuid.uuid4().hex
    run = runs.NewRun(
        run_id=run_id, mlflow_run_id=uuid.uuid4().hex, workload_id=workload, position=1, attempt=1, name="train", owner="me",
        command="train.py", environment="-", collocation="-", devices="+".join(GPUS.values()), params={}, host=HOST,
        fingerprint=uuid.uuid4().hex, simulated=False, exporters=None,
    )  # fmt: skip
    runs.create_runs(world.connection, [run])
    placements = [runs.Placement(run_id, host, gpu_uuid=gpu, gpu_instance_id=None) for host, gpu in GPUS.items()]
    runs.start_runs(world.connection, workload, placements, start)
    world.end(run_id, start, start + SECONDS)
    return run_id


def of_host(host: str, stamp: str, second: int) -> str:
    gpu = f'gpu="0",UUID="{GPUS[host]}",Hostname="{host}",instance="{host}:9400",job="dcgm"'
    node = f'instance="{host}:9100",job="node"'
    return (
        f"DCGM_FI_DEV_POWER_USAGE{{{gpu}}} 200{stamp}\nDCGM_FI_DEV_FB_USED{{{gpu}}} 1000{stamp}\n"
        f'node_cpu_seconds_total{{cpu="0",mode="user",{node}}} {second}{stamp}\n'
    )


def federated(start: float, apart: float | None) -> Callable[[int], str]:
    """Return the lines of both hosts in each scrape, the second host's `apart` seconds later; without times if ``None``."""

    def lines(second: int) -> str:
        late = dict.fromkeys(GPUS, 0.0) | {"node2": apart or 0.0}
        at = {host: round((start + second - 0.5 + late[host]) * 1000) for host in GPUS}
        return "".join(of_host(host, "" if apart is None else f" {at[host]}", second) for host in GPUS)

    return lines


def charted(world: World, run: str, quantity: str) -> set[float]:
    query = "select value from run_chart(array[%s], array[%s], null, null, 1000, true, 40)"
    return {round(value, 6) for (value,) in rows(world, query, run, quantity)}


@pytest.mark.parametrize("apart", [None, 0.0, 0.4])
def test_federated_hosts_are_added_up(world: World, tmp_path: Path, start: float, apart: float | None) -> None:
    run = run_on_both_hosts(world, start)
    scrape_lines(world, tmp_path, start, federated(start, apart), FEDERATE)
    together = {"gpu_power": 400, "gpu_memory_used": 2000 * 2**20, "cpu_usage": 2}
    for summarised in (False, True):
        if summarised:
            world.connection.execute("select summarise(%s)", (run,))
        for quantity, value in together.items():
            summary = (
                "select mean, min, max, p50, seconds, total from run_summary"
                " where run_id = %s and quantity = %s and metric is null"
            )
            *statistics, seconds, total = one(world, summary, run, quantity)
            assert statistics == [pytest.approx(value)] * 4, quantity
            assert SECONDS - 2 < seconds <= SECONDS
            assert total == pytest.approx(value * seconds)
            assert charted(world, run, quantity) == {value}
    [entry] = compare(world.connection, ["20"]).entries
    assert entry.values["gpu_power_watts"] == pytest.approx(400)
    assert entry.values["gpu_peak_memory_bytes"] == pytest.approx(2000 * 2**20)


def exporters_of_a_host(start: float, exporters: list[tuple[str, str]], apart: float) -> Callable[[int], str]:
    def lines(second: int) -> str:
        content = ""
        for number, (instance, job) in enumerate(exporters):
            stamp = f" {round((start + second - 0.5 + number * apart) * 1000)}"
            labels = f'instance="{instance}",job="{job}"'
            gpu = f'UUID="{GPUS[HOST]}",Hostname="{HOST}",{labels}'
            content += f'node_cpu_seconds_total{{cpu="0",mode="user",{labels}}} {second}{stamp}\n'
            content += f"node_memory_MemTotal_bytes{{{labels}}} 1000{stamp}\n"
            content += f"bench_gpu_memory_used_bytes{{{gpu}}} 5{stamp}\n"
        return content

    return lines


@pytest.mark.parametrize("apart", [0.0, 0.4])
@pytest.mark.parametrize(
    "second",
    [(f"{HOST}:9711", "host"), (f"{HOST}:9711", "node"), (f"{HOST}:9100", "host")],
    ids=["both", "instance", "job"],
)
def test_federated_exporters_of_a_host_count_once(
    world: World, tmp_path: Path, start: float, second: Any, apart: float
) -> None:
    run = world.run(start, start + SECONDS, gpu=GPUS[HOST])
    scrape_lines(
        world, tmp_path, start, exporters_of_a_host(start, [(f"{HOST}:9100", "node"), second], apart), FEDERATE
    )
    together = {"cpu_usage": 1, "memory_total": 1000, "gpu_memory_used": 5}
    for summarised in (False, True):
        if summarised:
            world.connection.execute("select summarise(%s)", (run,))
        for quantity, value in together.items():
            query = "select mean from run_summary where run_id = %s and quantity = %s and metric is null"
            assert one(world, query, run, quantity) == pytest.approx(value), quantity
            assert charted(world, run, quantity) == {value}
    span = "to_timestamp(%s), to_timestamp(%s), 1000"
    for by in ("host", "device"):
        query = f"select distinct value from series_chart(array['memory_total'], {span}, '{by}')"
        assert rows(world, query, start, start + SECONDS) == [(1000,)]


def test_the_fleet_counts_federated_exporters_of_a_host_once(world: World, tmp_path: Path) -> None:
    start = time.time() - SECONDS
    exporters = [(f"{HOST}:9100", "node"), (f"{HOST}:9711", "host")]
    scrape_lines(world, tmp_path, start, exporters_of_a_host(start, exporters, 0.0), FEDERATE)
    query = "select host, cores_busy, memory_total from fleet_hosts() where host = %s"
    assert rows(world, query, HOST) == [(HOST, pytest.approx(1), 1000)]
