"""Quality of a run's data: throttling, and the overhead of the measurement."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hypergauge.sql.maintenance import aggregates
from tests.support.world import World

START = time.time() // 60 * 60 - 7200
SECONDS = 100
GPU = "GPU-1"
TIMES = [START + 1 + at for at in range(SECONDS)]


def quality(world: World) -> list[tuple[Any, ...]]:
    return world.connection.execute(
        "select throttled, overhead from run_quality join runs using (run_id) order by position"
    ).fetchall()


def host(world: World, *, busy: float, idle: float, waiting: float = 0.0, exporters: tuple[float, ...] = ()) -> None:
    """Write what the cores of the host did in these seconds, and what each of the exporters took."""
    for mode, cores in (("user", busy), ("idle", idle), ("iowait", waiting)):
        world.write(world.gauge("node_cpu_seconds_total", TIMES, [cores] * SECONDS, {"cpu": "0", "mode": mode}))
    for name, cores in zip(("process", "nvml"), exporters, strict=False):
        labels = {"exporter": name}
        world.write(world.gauge("bench_exporter_cpu_seconds_total", TIMES, [cores] * SECONDS, labels, name))


def throttle(world: World, gpu: str, **seconds: int) -> None:
    """Write for which seconds each reason held the clocks of a GPU down."""
    for reason, held in seconds.items():
        values = [1.0] * held + [0.0] * (SECONDS - held)
        world.write(world.gauge("bench_gpu_throttled", TIMES, values, {"UUID": gpu, "reason": reason}, "nvml"))


def test_a_run_was_throttled_was_not_or_is_unknown(world: World) -> None:
    for position, gpu in enumerate(("GPU-1", "GPU-2", "GPU-3"), 1):
        world.run(START, START + SECONDS, position=position, gpu=gpu)
    throttle(world, "GPU-1", sw_power_cap=0, hw_thermal_slowdown=3)
    throttle(world, "GPU-2", sw_power_cap=0, hw_thermal_slowdown=0)
    expected = [(True, None), (False, None), (None, None)]
    assert quality(world) == expected
    world.connection.execute("select summarise(run_id) from runs")
    assert quality(world) == expected


@pytest.mark.parametrize("reason", ["applications_clocks_setting", "sync_boost", "display_clock_setting"])
def test_a_setting_of_the_clocks_does_not_throttle(world: World, reason: str) -> None:
    run = world.run(START, START + SECONDS, gpu=GPU)
    throttle(world, GPU, **{reason: SECONDS})
    assert quality(world) == [(False, None)]
    world.connection.execute("select summarise(%s)", (run,))
    assert quality(world) == [(False, None)]
    codes = world.connection.execute("select code from chart_notice(array[%s], '{gpu_power}')", (run,)).fetchall()
    assert ("throttled",) not in codes


@pytest.mark.parametrize(
    "metric",
    [
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
        "nvidia_smi_clocks_event_reasons_active",
    ],
)
@pytest.mark.parametrize(("mask", "throttled"), [(0x1, False), (0x2 | 0x10, False), (0x2 | 0x4, True), (0x48, True)])
def test_masks_of_other_exporters_throttle_by_heat_and_power_alone(
    world: World, metric: str, mask: int, throttled: bool
) -> None:
    run = world.run(START, START + SECONDS, gpu=GPU)
    line = f'# TYPE {metric} gauge\n{metric}{{UUID="{GPU}"}} {mask}\n'.encode()
    world.write(world.scraped([(at, line) for at in TIMES], "dcgm"))
    assert quality(world) == [(throttled, None)]
    [share] = world.connection.execute(
        "select mean from run_summary where run_id = %s and quantity = 'gpu_throttled' and metric is null", (run,)
    ).fetchone() or [None]
    assert share == throttled, "the share of the time"


def test_what_throttles_a_gpu_before_and_after_a_run_is_not_the_runs(world: World) -> None:
    world.run(START + 20, START + SECONDS, gpu=GPU)
    throttle(world, GPU, sw_power_cap=15)
    assert quality(world) == [(False, None)]


def test_overhead_is_the_share_of_the_hosts_cores_that_exporters_used(world: World) -> None:
    run = world.run(START)
    host(world, busy=3.0, idle=4.5, waiting=0.5, exporters=(0.06, 0.02))
    assert quality(world) == [(None, None)], "not for a running run"
    world.end(run, START, START + SECONDS)
    world.connection.execute("select summarise(run_id) from runs")
    assert quality(world) == [(None, pytest.approx(0.01, rel=0.01))]


@pytest.mark.parametrize("exporters", [(), (0.05,)])
def test_overhead_is_not_known_where_the_host_or_its_exporters_are_not(
    world: World, exporters: tuple[float, ...]
) -> None:
    world.run(START, START + SECONDS)
    if exporters:
        names = {"exporter": "nvml"}
        world.write(world.gauge("bench_exporter_cpu_seconds_total", TIMES, [0.05] * SECONDS, names, "nvml"))
    else:
        host(world, busy=1.0, idle=3.0)
    world.connection.execute("select summarise(run_id) from runs")
    assert quality(world) == [(None, None)]


def test_overhead_while_some_exporters_are_read_less_often(world: World) -> None:
    world.run(START, START + SECONDS)
    host(world, busy=1.0, idle=3.0, exporters=(0.02,))
    times = TIMES[8::10]
    slow = world.gauge("bench_exporter_cpu_seconds_total", times, [0.02] * 10, {"exporter": "x"}, "x", dt=10.0)
    world.write(slow)
    world.connection.execute("select summarise(run_id) from runs")
    assert quality(world) == [(None, pytest.approx(0.01, rel=0.01))]


def test_an_exporter_that_began_later_has_not_measured_a_run(world: World) -> None:
    begins = START - 60 * 86_400
    times = [begins + 1 + at for at in range(2 * SECONDS)]
    run = world.run(begins, begins + SECONDS)
    world.write(world.gauge("node_load1", times[:SECONDS], [1.0] * SECONDS, exporter="host"))
    world.connection.execute("select summarise(%s)", (run,))
    world.write(world.gauge("node_load1", times[SECONDS + 5 :], [1.0] * (SECONDS - 5), exporter="node_exporter"))
    assert exporters(world) == ["host"]
    world.refresh()
    aggregates.keep_raw(world.connection, 30)
    aggregates.maintain(world.connection)
    assert world.connection.execute("select count(*) from samples").fetchone() == (0,)
    assert exporters(world) == ["host"], "the aggregates show it too"


def exporters(world: World) -> list[str]:
    [(found,)] = world.connection.execute(
        "select listeners from run_listeners(array(select run_id from runs))"
    ).fetchall()
    return list(found)
