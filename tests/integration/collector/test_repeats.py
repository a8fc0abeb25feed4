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


def told(world: World, listener: str, start: float, seconds: int, cores: float) -> list[SpoolRecord]:
    """Return what a target gives of the host, and of a GPU, that are as busy as `cores` says; each scrapes at its own moments."""
    times = [start + at + (0.3 if listener == THEIRS else 0) for at in range(1, seconds + 1)]
    busy = [cores / 2] * seconds
    return [
        *(
            world.gauge("node_cpu_seconds_total", times, busy, {"cpu": cpu, "mode": "user"}, listener)
            for cpu in ("0", "1")
        ),
        world.gauge("node_memory_MemTotal_bytes", times, [cores * 2**30] * seconds, {}, listener),
        world.gauge("DCGM_FI_DEV_FB_USED", times, [cores * 1024] * seconds, {"UUID": "GPU-1", "gpu": "0"}, listener),
    ]


def of_the_host(world: World, run: str) -> dict[str, float]:
    """Return what the ways to ask say of a run: each its cores, and gigabytes of the host and of the GPU."""
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


@pytest.mark.parametrize("state", ["goes on", "has ended", "is summarised"])
def test_what_two_targets_give_counts_once(world: World, start: float, state: str) -> None:
    run = world.run(start, gpu="GPU-1")
    world.write(*told(world, OURS, start, 900, 2.0), *told(world, THEIRS, start, 900, 2.0))
    if state != "goes on":
        world.end(run, start, start + 900)
    if state == "is summarised":
        world.connection.execute("select summarise(%s)", (run,))
    world.refresh()
    found = of_the_host(world, run)
    assert found == {name: pytest.approx(2, rel=0.01) for name in found}


def test_of_two_targets_the_one_counts_that_covers_most(world: World, start: float) -> None:
    run = world.run(start, start + 900, gpu="GPU-1")
    world.write(*told(world, OURS, start, 100, 2.0), *told(world, THEIRS, start, 900, 4.0))
    world.connection.execute("select summarise(%s)", (run,))
    world.refresh()
    found = of_the_host(world, run)
    assert found == {name: pytest.approx(4, rel=0.01) for name in found}
    # It stays so, whatever comes after it.
    world.write(*told(world, OURS, start + 1000, 900, 2.0), *told(world, "telegraf", start + 1000, 900, 2.0))
    assert of_the_host(world, run) == found


def test_a_target_that_nobody_scrapes_any_more_counts_for_no_run_that_goes_on(world: World, start: float) -> None:
    world.write(*told(world, OURS, start - 1000, 900, 2.0))
    world.connection.execute("update targets set last_seen = to_timestamp(%s)", (start - 100,))
    run = world.run(start, gpu="GPU-1")
    world.write(*told(world, THEIRS, start, 900, 4.0))
    world.connection.execute("update targets set last_seen = now() where listener = %s", (THEIRS,))
    found = of_the_host(world, run)
    assert found == {name: pytest.approx(4, rel=0.01) for name in found}


def test_what_the_catalog_does_not_know_is_added_up(world: World, start: float) -> None:
    """Two servers of one host, each with its own requests."""
    run = world.run(start, start + 100)
    times = [start + at for at in range(100)]
    world.write(*(world.gauge("my_requests", times, [3.0] * 100, {}, listener) for listener in ("one", "two")))
    rows = world.connection.execute(
        "select mean from run_summary where run_id = %s and quantity = 'my_requests' and metric is null", (run,)
    ).fetchall()
    assert rows == [(6.0,)]


def test_hosts_and_gpus_have_what_one_target_gives(world: World) -> None:
    now = float(int(time.time()))
    world.write(*told(world, OURS, now - 100, 99, 2.0), *told(world, THEIRS, now - 100, 99, 2.0))
    world.write(
        *(
            world.gauge("node_rapl_package_joules_total", [now - at for at in range(99, 0, -1)], [50.0] * 99, {}, one)
            for one in (OURS, THEIRS)
        )
    )

    def asked(statement: str) -> list[tuple[Any, ...]]:
        return world.connection.execute(statement.encode()).fetchall()

    assert asked("select host, cores_busy, memory_total / 2.0^30 from fleet_hosts()") == [(HOST, 2.0, 2.0)]
    assert asked("select memory_used / 2.0^30 from fleet()") == [(2.0,)]
    span = "now() - interval '5 min', now()"
    assert asked(f"select sum(joules) from energy({span})") == [(pytest.approx(99 * 50),)]
    for quantity, value in {"cpu_usage": 2.0, "cpu_power": 50.0}.items():
        rows = asked(f"select max(value) from series_chart(array['{quantity}'], {span}, 1000, 'host')")
        assert rows == [(pytest.approx(value),)]


def test_a_trace_has_the_figures_of_one_target(world: World, start: float) -> None:
    run = world.run(start, start + 100, gpu="GPU-1")
    world.write(*told(world, OURS, start, 100, 2.0), *told(world, THEIRS, start, 100, 2.0))
    path = world.folder.parent / "trace.json"
    write_trace(world.connection, select_runs(world.connection, [run]), path, ["gpu_memory_used"])
    counters = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "C"]
    assert len(counters) == 99  # the last one is at its end
