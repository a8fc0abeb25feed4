"""Charts against a plain computation on the raw samples, from every relation."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.schema.flavour import Flavour, inspect
from tests.support.data.charts import assert_same, chart, expected, random_world
from tests.support.world import World

pytestmark = pytest.mark.flavours


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_chart_equals_a_computation_on_raw_samples(world: World, seed: int) -> None:
    runs, start = random_world(world, seed)
    dice = random.Random(seed)
    quantities = ["cpu_usage", "gpu_utilization", "gpu_power"]
    points = 0
    for _ in ("as written", "refreshed"):
        for step in (1, 7, 10, 35, 60, 600):
            for aligned in (False, True):
                options: dict[str, Any] = {"aligned": aligned, "per_device": dice.random() < 0.5}
                if dice.random() < 0.5:
                    options["scopes"] = ["host", "device"]
                if dice.random() < 0.5:
                    options["start"] = round(dice.uniform(0, 600) + (0 if aligned else start), 3)
                    options["stop"] = options["start"] + 400
                wanted = expected(world, runs, quantities, step, **options)
                assert_same(chart(world, runs, quantities, step, **options), wanted)
                points += len(wanted)
        world.refresh()
    assert points > 1000


def test_a_chart_of_many_runs_equals_a_computation_on_raw_samples(world: World) -> None:
    start = time.time() // 600 * 600 - 7200 + 3.5
    runs = [world.run(start + 20 * at, start + 20 * at + 19, position=at + 1) for at in range(45)]
    times = [start + at + 0.5 for at in range(900)]
    world.write(world.gauge("node_load1", times, [float(at % 37) for at in range(900)]))
    world.refresh()
    for step in (1, 10, 60):
        for aligned in (False, True):
            wanted = expected(world, runs, ["load"], step, aligned=aligned)
            assert len({series for _, series, *_ in wanted}) == 45
            assert_same(chart(world, runs, ["load"], step, aligned=aligned), wanted)


@pytest.mark.parametrize(("interval", "step"), [(1, 0.25), (1, 1), (5, 1), (10, 1), (15, 1), (30, 7), (10, 10)])
def test_aligned_runs_share_their_points_however_seldom_they_are_measured(
    world: World, interval: float, step: float
) -> None:
    dice = random.Random(interval + step)
    start = time.time() // 600 * 600 - 7200
    begins = [start + 3.7 * interval, start + 41.2 * interval]
    runs = [world.run(begin, begin + 30 * interval, position=at, gpu=f"GPU-{at}") for at, begin in enumerate(begins, 1)]
    for at, phase in ((1, 0.02), (2, 0.98)):  # samples that lie around the boundaries of bins
        times = [start + interval * (at + phase + dice.uniform(-0.04, 0.04)) for at in range(80)]
        values = [float(n) for n in range(80)]
        gauge = world.gauge("DCGM_FI_DEV_POWER_USAGE", times, values, {"UUID": f"GPU-{at}"}, f"dcgm{at}", interval)
        world.write(gauge)
    found: dict[str, list[tuple[float, ...]]] = {}
    for when, run, _, _, *values in chart(world, runs, ["gpu_power"], step, aligned=True):
        found.setdefault(run, []).append((when, *values))
    first, second = found.values()
    assert min(len(first), len(second)) >= (29 if interval < 10 else 15)
    [distance] = {round(later[0] - earlier[0], 3) for some in found.values() for earlier, later in pairwise(some)}
    assert interval <= distance < 2 * interval
    assert {round(when % distance, 3) for when, *_ in first + second} <= {0, distance}
    assert all(low <= value <= high for _, value, low, high in first + second)


def plan(world: World, run: str, step: float) -> Iterable[str]:
    row = world.connection.execute(
        "select run_chart_statement(array[%s], array['load'], null, null, %s, false, 10)", (run, step * 1000)
    ).fetchone()
    assert row is not None
    return [line for (line,) in world.connection.execute(f"explain {row[0]}".encode()).fetchall()]


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("step", [1, 10, 60])
def test_a_chart_reads_the_chunks_of_its_span_by_index(world: World, step: int, settled: bool) -> None:
    days = 5
    start = time.time() // 86_400 * 86_400 - days * 86_400
    run = world.run(start + 2 * 86_400 + 3600, start + 2 * 86_400 + 7200)
    world.write(world.gauge("node_load1", [start], [1.0]))
    world.connection.execute(  # so many series that an index pays
        """
        insert into samples (time, series_id, runset_id, value, dt)
        select time, series_id + other, 0, 1, 60 from series, generate_series(0, 19) as other,
               generate_series(to_timestamp(%s), to_timestamp(%s), '1 min') as time
        """,
        (start + 60, start + days * 86_400 - 60),
    )
    aggregates.refresh(world.connection)
    if settled:
        world.refresh()
    world.connection.execute("vacuum analyze")
    lines = "\n".join(plan(world, run, step))
    # In plain PostgreSQL only tables that hold a row or none are read as a whole.
    assert not re.search(f"Seq Scan on (_hyper|{'packed' if settled else 'unpacked'}_samples)", lines)
    assert "series_id" in lines
    if inspect(world.connection).flavour is Flavour.TIMESCALEDB:
        relation = {1: "samples", 10: "samples_10s", 60: "samples_1m"}[step]
        chunks = world.connection.execute("select count(*) from show_chunks(%s)", (relation,)).fetchone()
        assert chunks is not None
        assert chunks[0] >= days
        assert len(set(re.findall(r"_hyper_\d+_\d+_chunk", lines))) == 1
