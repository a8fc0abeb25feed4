"""Values of several targets together: in summaries, and in charts from every relation."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.world import HOST, World

SECONDS = 600
GPUS = ("GPU-1", "GPU-2")
# Name of a metric, and how devices combine.
POWER, TEMPERATURE, ACTIVITY = "gpu_power", "gpu_temperature", "gpu_sm_active"
METRICS = {
    POWER: "bench_gpu_power_watts",
    TEMPERATURE: "bench_gpu_temperature_celsius",
    ACTIVITY: "bench_gpu_sm_active_ratio",
}


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 7200 + 0.4


@pytest.fixture
def run(world: World, start: float) -> str:
    """Return a run on two GPUs, each with an exporter of its own."""
    run_id = world.run(start, start + SECONDS, gpu=GPUS[0])
    world.connection.execute(
        "insert into placements (run_id, host, gpu_uuid, started_at, ended_at)"
        " values (%s, %s, %s, to_timestamp(%s), to_timestamp(%s))",
        (run_id, HOST, GPUS[1], start, start + SECONDS),
    )
    return run_id


def measure(world: World, gpu: str, quantity: str, times: Iterable[float], value: float, interval: float = 1.0) -> None:
    at = list(times)
    record = world.gauge(METRICS[quantity], at, [value] * len(at), {"UUID": gpu}, f"nvml of {gpu}", dt=interval)
    world.write(record)


def summary(world: World, run: str, quantity: str) -> dict[str, float]:
    rows = world.connection.execute(
        "select mean, min, max, p50, p95, total, seconds from run_summary"
        " where run_id = %s and quantity = %s and metric is null",
        (run, quantity),
    ).fetchall()
    [values] = rows
    return dict(zip(("mean", "min", "max", "p50", "p95", "total", "seconds"), values, strict=True))


def points(world: World, run: str, quantity: str, **options: Any) -> list[tuple[float, float, float]]:
    settings = {"step": 1000, "aligned": True, **options}
    return world.connection.execute(
        "select value, low, high from run_chart(array[%s], array[%s], null, null, %s, %s, 10)",
        (run, quantity, settings["step"], settings["aligned"]),
    ).fetchall()


def check(world: World, run: str, quantity: str, value: float) -> None:
    """Check that summary and chart show `value` at all times, from every relation."""
    for stored in (False, True):
        found = summary(world, run, quantity)
        assert {name: found[name] for name in ("mean", "min", "max", "p50", "p95")} == dict.fromkeys(
            ("mean", "min", "max", "p50", "p95"), pytest.approx(value)
        )
        for step in (1, 7, 10, 60, 600):
            for aligned in (False, True):
                chart = points(world, run, quantity, step=step * 1000, aligned=aligned)
                assert chart
                assert {round(mean, 6) for mean, *_ in chart} == {value}, (step, aligned)
                assert {round(low, 6) for _, low, _ in chart} == {value}, (step, aligned)
        if not stored:
            world.connection.execute("select summarise(%s)", (run,))
            world.refresh()


def scrapes(start: float, first: float, interval: float = 1.0, *gaps: range) -> list[float]:
    """Return the times of scrapes of the run, with a jitter."""
    count = math.floor((SECONDS - first) / interval)
    return [
        start + first + interval * n + 0.004 * (n % 3)
        for n in range(count)
        if not any(interval * n in gap for gap in gaps)
    ]


@pytest.mark.flavours
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0.1, 1.0), (0.95, 1.0)),
        ((0.1, 1.0), (1.9, 1.0)),
        ((0.5, 1.0), (7.0, 10.0)),
        ((0.5, 1.0, range(100, 160)), (0.9, 1.0, range(300, 320))),
        ((0.5, 1.0, range(2, 40)), (0.9, 1.0, range(560, 590))),
        ((0.5, 1.0), (90.7, 1.0)),
        ((0.5, 5.0), (0.3, 2.0, range(400, 600))),
    ],
)
@pytest.mark.parametrize(
    ("quantity", "values", "together"), [(POWER, (100.0, 100.0), 200.0), (POWER, (50.0, 300.0), 350.0)]
)
def test_a_sum_is_of_all_targets_at_every_moment(
    world: World, run: str, start: float, first: Any, second: Any, quantity: str, values: tuple[float, float], together: float
) -> None:  # fmt: skip
    for gpu, times, value in zip(GPUS, (first, second), values, strict=True):
        measure(world, gpu, quantity, scrapes(start, *times), value, times[1])
    check(world, run, quantity, together)


@pytest.mark.parametrize(("quantity", "together"), [(TEMPERATURE, 80.0), (ACTIVITY, 60.0)])
def test_a_bin_without_the_hottest_gpu_is_no_minimum(
    world: World, run: str, start: float, quantity: str, together: float
) -> None:
    measure(world, GPUS[0], quantity, scrapes(start, 0.1), 40.0)
    measure(world, GPUS[1], quantity, scrapes(start, 0.9, 1.0, range(100, 160)), 80.0)
    found = summary(world, run, quantity)
    assert [found[name] for name in ("mean", "min", "p50", "p95", "max")] == [pytest.approx(together)] * 5
    assert {round(value, 6) for value, *_ in points(world, run, quantity)} == {together}


def test_the_curve_of_a_host_has_all_its_gpus(world: World, run: str, start: float) -> None:
    measure(world, GPUS[0], POWER, scrapes(start, 0.1), 100.0)
    measure(world, GPUS[1], POWER, scrapes(start, 0.9, 1.0, range(100, 160)), 100.0)
    for step in (1000, 10_000, 60_000):
        values = world.connection.execute(
            "select value from series_chart(array['gpu_power'], to_timestamp(%s), to_timestamp(%s), %s, 'host')",
            (start, start + SECONDS, step),
        ).fetchall()
        assert len(values) >= (SECONDS - 60) * 1000 / step - 8
        assert {round(value, 6) for (value,) in values} == {200}, step


def test_targets_one_after_the_other_are_not_added(world: World, run: str, start: float) -> None:
    """The first exporter is replaced in the middle of the run."""
    measure(world, GPUS[0], POWER, [at for at in scrapes(start, 0.3) if at < start + 300], 100.0)
    measure(world, GPUS[1], POWER, [at for at in scrapes(start, 0.7) if at >= start + 300], 100.0)
    found = summary(world, run, POWER)
    assert [found[name] for name in ("min", "p50", "p95", "max")] == [100] * 4
    assert found["mean"] == pytest.approx(100, rel=0.01)
    assert len(points(world, run, POWER)) >= SECONDS - 8


def test_a_total_is_what_was_measured(world: World, run: str, start: float) -> None:
    measure(world, GPUS[0], POWER, scrapes(start, 0.1), 100.0)
    measure(world, GPUS[1], POWER, scrapes(start, 0.9, 1.0, range(100, 160)), 100.0)
    found = summary(world, run, POWER)
    assert found["total"] == pytest.approx(100 * (599 + 599 - 60))
    assert found["seconds"] == pytest.approx((599 + 599 - 60) / 2), "its mean is 200 W"


def test_a_minimum_of_all_targets_is_found(world: World, run: str, start: float) -> None:
    """Both GPUs draw 10 W for three seconds."""
    for gpu, first in zip(GPUS, (0.1, 0.9), strict=True):
        times = scrapes(start, first)
        values = [10.0 if 200 <= at - start < 203 else 100.0 for at in times]
        world.write(world.gauge(METRICS[POWER], times, values, {"UUID": gpu}, f"nvml of {gpu}"))
    assert summary(world, run, POWER)["min"] == 20
    assert min(low for _, low, _ in points(world, run, POWER)) == 20
