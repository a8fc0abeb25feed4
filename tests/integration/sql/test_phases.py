"""Targets scraped at different moments: chart, summary and samples agree, in both flavours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.world import HOST, World

pytestmark = pytest.mark.flavours

SECONDS = 120
# By source: its metric, and its value of a watt.
METRICS = {
    "nvml": ("bench_gpu_power_watts", "gauge", 1.0),
    "dcgm": ("DCGM_FI_DEV_POWER_USAGE", "gauge", 1.0),
    "energy": ("bench_gpu_energy_joules_total", "counter", 1.0),
    "consumption": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", 1000.0),
}


@dataclass(frozen=True)
class Source:
    """Samples that one target has of one GPU: their moments, and the missing ones."""

    kind: str
    watts: int
    phase: float
    interval: int
    gap: tuple[int, int] = (0, 0)

    def scrapes(self, start: float) -> list[float]:
        moments = np.arange(-self.interval, SECONDS + self.interval, self.interval) + self.phase * self.interval
        return [start + at for at in moments.tolist() if not self.gap[0] <= at < self.gap[1]]


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 7200 + 60


def measure(world: World, start: float, sources: Sequence[Source], name: str = "") -> str:
    """Start a run on as many GPUs as there are sources, each measured by one; return its id."""
    gpus = [f"GPU-{name}{number}" for number in range(len(sources))]
    position = 1 + int(world.connection.execute("select count(*) from runs").fetchone()[0])  # type: ignore[index]
    run = world.run(start, start + SECONDS, position=position, gpu=gpus[0])
    for gpu in gpus[1:]:
        world.connection.execute(
            "insert into placements (run_id, host, gpu_uuid, started_at, ended_at)"
            " values (%s, %s, %s, to_timestamp(%s), to_timestamp(%s))",
            (run, HOST, gpu, start, start + SECONDS),
        )
    for number, (gpu, source) in enumerate(zip(gpus, sources, strict=True)):
        metric, kind, scale = METRICS[source.kind]
        expositions = []
        for at in source.scrapes(start):
            value = source.watts * scale * (at - start + 1000 if kind == "counter" else 1)
            expositions.append((at, f'# TYPE {metric} {kind}\n{metric}{{UUID="{gpu}"}} {value!r}\n'.encode()))
        world.write(world.scraped(expositions, f"{source.kind} {name}{number}", float(source.interval)))
    world.connection.execute("select summarise(run_id) from runs")
    world.refresh()
    return run


def summary(world: World, run: str) -> dict[str, float]:
    names = ("n", "seconds", "mean", "min", "max", "p50", "p95", "total")
    [row] = world.connection.execute(
        f"select {', '.join(names)} from run_summary where run_id = %s and quantity = 'gpu_power' and metric is null".encode(),
        (run,),
    ).fetchall()
    return dict(zip(names, row, strict=True))


def chart(world: World, run: str, step: float) -> list[float]:
    rows = world.connection.execute(
        "select value from run_chart(array[%s], array['gpu_power'], null, null, %s, false, 10)", (run, step * 1000)
    ).fetchall()
    return [value for (value,) in rows]


def raw(world: World, run: str) -> float:
    """Return the joules that plain SQL finds."""
    row = world.connection.execute(
        "select sum(value * dt) from run_samples where run_id = %s and quantity = 'gpu_power'", (run,)
    ).fetchone()
    assert row is not None
    return float(row[0])


def test_gpus_of_two_targets_add_up_in_charts_and_summaries(world: World, start: float) -> None:
    run = measure(world, start, [Source("nvml", 300, 0.25, 1), Source("dcgm", 300, 0.75, 1)])
    found = summary(world, run)
    assert found["mean"] == pytest.approx(600, rel=0.01)
    assert (found["max"], found["p50"], found["p95"]) == pytest.approx((600, 600, 600))
    assert found["total"] == pytest.approx(raw(world, run), rel=1e-6)
    for step in (1, 7, 10, 60):
        assert np.median(chart(world, run, step)) == pytest.approx(600)


@pytest.mark.parametrize("phase", [0.1, 0.9])
def test_a_chart_waits_for_the_slowest_of_what_it_adds_up(world: World, start: float, phase: float) -> None:
    sources = [Source("nvml", 300, 0.25, 1), Source("dcgm", 100, phase, 10)]
    run = measure(world, start, sources)
    points = chart(world, run, 1)
    assert len(points) == pytest.approx(SECONDS / 10, abs=1)
    assert points[1:-1] == pytest.approx([400] * len(points[1:-1]))
    rows: list[Any] = world.connection.execute(
        "select value from series_chart(array['gpu_power'], to_timestamp(%s), to_timestamp(%s), 1000, 'host')",
        (start + 20, start + SECONDS - 20),
    ).fetchall()
    assert [value for (value,) in rows] == pytest.approx([400] * ((SECONDS - 40) // 10))


sources = st.builds(
    Source,
    kind=st.sampled_from(sorted(METRICS)),
    watts=st.integers(1, 500),
    phase=st.integers(1, 99).map(lambda part: part / 100),
    interval=st.sampled_from([1, 2, 5]),
    gap=st.one_of(
        st.just((0, 0)),
        st.tuples(st.integers(10, SECONDS // 2), st.integers(1, SECONDS // 3)).map(lambda gap: (gap[0], sum(gap))),
    ),
)


@settings(max_examples=8, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(measured=st.lists(sources, min_size=1, max_size=3))
def test_chart_summary_and_samples_agree(world: World, measured: list[Source]) -> None:
    number = int(world.connection.execute("select count(*) from runs").fetchone()[0])  # type: ignore[index]
    start = time.time() // 600 * 600 - 86_400 + 600 * number
    run = measure(world, start, measured, f"{number}-")
    found, slowest = summary(world, run), max(source.interval for source in measured)
    watts = sum(source.watts for source in measured)
    assert found["total"] == pytest.approx(raw(world, run), rel=1e-5)
    assert found["mean"] == pytest.approx(found["total"] / found["seconds"], rel=1e-9)
    assert found["max"] <= watts * (1 + 1e-5)
    for step in {1, slowest}:
        points = chart(world, run, step)
        if len(measured) == 1 and step < slowest:
            continue
        least, middle, most = np.min(points), np.percentile(points, 50), np.max(points)
        assert (found["min"], found["p50"], found["max"]) == pytest.approx((least, middle, most), rel=1e-5)
    if all(source.gap == (0, 0) or METRICS[source.kind][1] == "counter" for source in measured):
        slack = 2 * slowest / SECONDS
        assert found["mean"] == pytest.approx(watts, rel=slack)
        assert found["total"] == pytest.approx(watts * SECONDS, rel=slack)
