"""Duplicate series, from node_exporter and our own exporter: one of them counts."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from hypergauge.collector.spool.records import SpoolRecord
from hypergauge.insight.export.trace import write_trace
from hypergauge.sql.runs.selection import select_runs
from tests.support.world import HOST, World

OURS, THEIRS = "host", "node_exporter"


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 3600


def samples(world: World, exporter: str, start: float, seconds: int, cores: float) -> list[SpoolRecord]:
    """Return a target's samples of a host and a GPU with `cores` as values; scrape times differ by target."""
    times = [start + at + (0.3 if exporter == THEIRS else 0) for at in range(1, seconds + 1)]
    busy = [cores / 2] * seconds
    return [
        *(
            world.gauge("node_cpu_seconds_total", times, busy, {"cpu": cpu, "mode": "user"}, exporter)
            for cpu in ("0", "1")
        ),
        world.gauge("node_memory_MemTotal_bytes", times, [cores * 2**30] * seconds, {}, exporter),
        world.gauge("DCGM_FI_DEV_FB_USED", times, [cores * 1024] * seconds, {"UUID": "GPU-1", "gpu": "0"}, exporter),
    ]


def of_the_host(world: World, run: str) -> dict[str, float]:
    """Return a run's cores, and gigabytes of the host and the GPU, by the way to query them."""
    found: dict[str, float] = {}
    charts = {
        "run_chart": "run_chart(array[%(run)s], {quantity}, null, null, 100000, true, 40, array['host', 'instance'])",
        "workload_chart": "workload_chart(array(select workload_id from runs where run_id = %(run)s), {quantity}, null,"
        " null, 100000, true, 40, array['host', 'instance'])",
    }
    for quantity, unit in {"cpu_usage": 1, "memory_total": 2**30, "gpu_memory_used": 2**30}.items():
        for name, call in charts.items():
            rows = world.connection.execute(
                f"select value from {call.format(quantity=f'array[{quantity!r}]')}".encode(), {"run": run}
            ).fetchall()
            found[f"{name} {quantity}"] = max(value for (value,) in rows) / unit if rows else 0
        rows = world.connection.execute(
            "select mean from run_summary where run_id = %s and quantity = %s and metric is null", (run, quantity)
        ).fetchall()
        found[f"run_summary {quantity}"] = rows[0][0] / unit
    return found


@pytest.mark.parametrize("state", ["running", "ended", "summarised"])
def test_duplicate_series_count_once(world: World, start: float, state: str) -> None:
    run = world.run(start, gpu="GPU-1")
    world.write(*samples(world, OURS, start, 900, 2.0), *samples(world, THEIRS, start, 900, 2.0))
    if state != "running":
        world.end(run, start, start + 900)
    if state == "summarised":
        world.connection.execute("select summarise(%s)", (run,))
    world.refresh()
    found = of_the_host(world, run)
    assert found == {name: pytest.approx(2, rel=0.01) for name in found}


def test_the_target_with_the_most_coverage_counts(world: World, start: float) -> None:
    run = world.run(start, start + 900, gpu="GPU-1")
    world.write(*samples(world, OURS, start, 100, 2.0), *samples(world, THEIRS, start, 900, 4.0))
    world.connection.execute("select summarise(%s)", (run,))
    world.refresh()
    found = of_the_host(world, run)
    assert found == {name: pytest.approx(4, rel=0.01) for name in found}
    # Later samples do not change that.
    world.write(*samples(world, OURS, start + 1000, 900, 2.0), *samples(world, "telegraf", start + 1000, 900, 2.0))
    assert of_the_host(world, run) == found


def test_a_removed_target_does_not_count_for_a_live_run(world: World, start: float) -> None:
    world.write(*samples(world, OURS, start - 1000, 900, 2.0))
    world.connection.execute("update targets set last_seen = to_timestamp(%s)", (start - 100,))
    run = world.run(start, gpu="GPU-1")
    world.write(*samples(world, THEIRS, start, 900, 4.0))
    world.connection.execute("update targets set last_seen = now() where listener = %s", (THEIRS,))
    found = of_the_host(world, run)
    assert found == {name: pytest.approx(4, rel=0.01) for name in found}


def test_metrics_outside_the_catalog_are_summed(world: World, start: float) -> None:
    """Two servers of one host, each with its own requests."""
    run = world.run(start, start + 100)
    times = [start + at for at in range(100)]
    world.write(*(world.gauge("my_requests", times, [3.0] * 100, {}, exporter) for exporter in ("one", "two")))
    rows = world.connection.execute(
        "select mean from run_summary where run_id = %s and quantity = 'my_requests' and metric is null", (run,)
    ).fetchall()
    assert rows == [(6.0,)]


def test_fleet_and_energy_count_one_target(world: World) -> None:
    now = float(int(time.time()))
    world.write(*samples(world, OURS, now - 100, 99, 2.0), *samples(world, THEIRS, now - 100, 99, 2.0))
    world.write(
        *(
            world.gauge("node_rapl_package_joules_total", [now - at for at in range(99, 0, -1)], [50.0] * 99, {}, one)
            for one in (OURS, THEIRS)
        )
    )

    def query(statement: str) -> list[tuple[Any, ...]]:
        return world.connection.execute(statement.encode()).fetchall()

    assert query("select host, cores_busy, memory_total / 2.0^30 from fleet_hosts()") == [(HOST, 2.0, 2.0)]
    assert query("select memory_used / 2.0^30 from fleet()") == [(2.0,)]
    span = "now() - interval '5 min', now()"
    assert query(f"select sum(joules) from energy({span})") == [(pytest.approx(99 * 50),)]
    for quantity, value in {"cpu_usage": 2.0, "cpu_power": 50.0}.items():
        rows = query(f"select max(value) from series_chart(array['{quantity}'], {span}, 1000, 'host')")
        assert rows == [(pytest.approx(value),)]


def test_a_trace_has_the_values_of_one_target(world: World, start: float) -> None:
    run = world.run(start, start + 100, gpu="GPU-1")
    world.write(*samples(world, OURS, start, 100, 2.0), *samples(world, THEIRS, start, 100, 2.0))
    path = world.folder.parent / "trace.json"
    write_trace(world.connection, select_runs(world.connection, [run]), path, ["gpu_memory_used"])
    counters = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "C"]
    assert len(counters) == 99  # the last one is at its end
