"""Metrics of a Prometheus's federation, and metrics that are not of the catalog."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hypergauge.collector.discovery.discovery import read_targets
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.sharing.leases import Leases
from hypergauge.dashboards.terminal import comparison_sheet
from hypergauge.insight.comparison import columns
from hypergauge.insight.regression import run_values
from hypergauge.sql.ingest.catalog import catalog_kinds, packaged_kinds
from tests.support.collector.scraped_target import Scraped
from tests.support.world import HOST, World, rows

pytestmark = pytest.mark.flavours

GPU = "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4"
FEDERATE = """
scrape_configs:
  - job_name: federate
    honor_labels: true
    metrics_path: /federate
    static_configs:
      - targets: ["127.0.0.1:9090"]
"""


@pytest.fixture
def start() -> float:
    return time.time() // 60 * 60 - 3600


def scrape(world: World, folder: Path, start: float, exposition: str, config: str = FEDERATE) -> None:
    """Scrape a target for 30 s; ``SECOND`` in the exposition is the number of the scrape."""
    scrape_lines(world, folder, start, lambda second: exposition.replace("SECOND", str(second)), config)


def scrape_lines(world: World, folder: Path, start: float, lines: Callable[[int], str], config: str) -> None:
    """Scrape a target for 30 s, with the lines of each scrape."""
    file = folder / "targets.yml"
    file.write_text(config)
    [target] = read_targets(file, default_interval=1.0)
    leases = Leases(world.database, "me", CollectorMetrics())
    leases.claim({target.key: target})
    [target_id] = leases.held
    leases.close()
    scraped = Scraped(target, start, kinds=leases.kinds, target_id=target_id).scraped
    for second in range(30):
        at = start + second
        record = scraped.take(scraped.parse(lines(second).encode()), at, at, at)
        if record is not None:
            world.write(record)


def hosts(world: World) -> list[tuple[str, str]]:
    return rows(
        world,
        "select metric, p.host || ' ' || p.kind from series join places p using (place_id) order by metric, p.host",
    )


def total(world: World, run: str, quantity: str) -> list[float]:
    query = "select total from run_summary where run_id = %s and quantity = %s and metric is null"
    return [value for (value,) in rows(world, query, run, quantity)]


def test_an_untyped_counter_of_the_catalog_is_a_counter(world: World, tmp_path: Path, start: float) -> None:
    run = world.run(start, start + 29, gpu=GPU)
    labels = f'gpu="0",UUID="{GPU}",Hostname="{HOST}",instance="{HOST}:9400",job="dcgm"'
    metric = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    scrape(world, tmp_path, start, f"# TYPE {metric} untyped\n{metric}{{{labels}}} SECOND00000\n")  # 100 J/s
    assert total(world, run, "gpu_power") == [pytest.approx(2900)]


def test_federated_lines_belong_to_the_hosts_of_their_instances(world: World, tmp_path: Path, start: float) -> None:
    run = world.run(start, start + 29)
    lines = [
        'node_cpu_seconds_total{cpu="0",mode="user",instance="fed1:9100",job="node"} SECOND',
        'node_cpu_seconds_total{cpu="0",mode="user",instance="[2001:db8::1]:9100",job="node"} SECOND',
        f'node_cpu_seconds_total{{cpu="0",mode="user",instance="{HOST}:9100",job="node"}} SECOND',
        'node_load1{instance="",job="node"} 5',
        f'DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="{GPU}",Hostname="fed3",instance="10.0.3.7:9400",job="dcgm"}} 5',
    ]
    scrape(world, tmp_path, start, "\n".join(lines) + "\n")
    federating = rows(world, "select host from targets")[0][0]
    assert hosts(world) == [
        ("DCGM_FI_DEV_SM_CLOCK", "fed3 gpu"),
        ("node_cpu_seconds_total", "2001:db8::1 host"),
        ("node_cpu_seconds_total", "fed1 host"),
        ("node_cpu_seconds_total", f"{HOST} host"),
        ("node_load1", f"{federating} process"),
    ]
    assert total(world, run, "cpu_usage") == [pytest.approx(29)]
    assert total(world, run, "load") == []


def test_a_metric_with_the_name_of_a_quantity_is_not_that_quantity(world: World, tmp_path: Path, start: float) -> None:
    run = world.run(start, start + 29, gpu=GPU)
    lines = [f'gpu_utilization{{gpu="0",UUID="{GPU}"}} 87', "cpu_usage 73.5", "exported_cpu_usage 5", "my_metric 1"]
    scrape(
        world, tmp_path, start, "\n".join(lines) + "\n", f"- targets: ['10.0.3.7:9400']\n  labels: {{host: {HOST}}}\n"
    )
    query = "select quantity, metric, mean from run_summary where run_id = %s and metric is not null order by quantity"
    assert rows(world, query, run) == [
        ("exported_cpu_usage", "cpu_usage", 73.5),
        ("exported_exported_cpu_usage", "exported_cpu_usage", 5),
        ("exported_gpu_utilization", "gpu_utilization", 87),
        ("my_metric", "my_metric", 1),
    ]
    assert rows(world, "select distinct unit from run_samples where run_id = %s", run) == [("",)]


def test_no_metric_has_the_name_of_a_column_of_comparisons(world: World) -> None:
    keys = {
        value
        for name, value in vars(columns).items()
        if name.isupper() and isinstance(value, str) and not name.startswith("_")
    }
    keys = (
        keys - {columns.WHOLE_GPU} | {column.key for column in columns.COLUMNS} | columns._OF_WHOLE | columns._OF_SCRIPT
    )
    catalog = {name for (name,) in rows(world, "select distinct quantity from metrics")}
    # Names of conditions, titles, and the headings before the values.
    keys |= {*run_values._SHORT, *run_values._PACED, *comparison_sheet._TITLES.values()}
    keys |= {"run", "row", "workload", "name", "status", "simulated", "attempts"}
    assert set(rows(world, "select computed_names()")[0][0]) == keys - catalog
    names = rows(world, "select own_quantity('mfu'), own_quantity('exported_mfu'), own_quantity('my_mfu')")
    assert names == [("exported_mfu", "exported_exported_mfu", "my_mfu")]


def test_the_packaged_kinds_are_those_of_the_database(world: World) -> None:
    assert packaged_kinds() == catalog_kinds(world.connection)
    world.connection.execute(
        "insert into metrics (metric, quantity, unit, kind, combine) values ('mine', 'm', 'events/s', 'counter', 'sum')"
    )
    assert catalog_kinds(world.connection)["mine"] == "counter"
