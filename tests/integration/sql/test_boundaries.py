"""Samples across the start or end of a run, divided in time, in both flavours."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from hypergauge.sql.queries.traces import counters_of
from hypergauge.sql.schema.flavour import Flavour, inspect
from tests.support.data.charts import chart
from tests.support.world import LEVELS, World

pytestmark = pytest.mark.flavours

GPU = "GPU-1"
ENERGY = f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{UUID="{GPU}"}}'
WATTS = 100.0
A, B = (2.5, 60.25), (100.75, 140.5)  # from when to when each runs, in seconds
BEFORE, AFTER = range(20), range(110, 160)  # when the exporter answers


@pytest.fixture
def start() -> float:
    """A whole second, on no bucket's boundary."""
    return time.time() // 600 * 600 - 7200 + 7


def energy(world: World, start: float, seconds: Iterable[int]) -> None:
    """Write scrapes of a GPU's energy counter, which counts in millijoules."""
    head = "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"
    scrapes = [(start + at, f"{head}{ENERGY} {WATTS * 1000 * at!r}\n".encode()) for at in seconds]
    world.write(world.scraped(scrapes, "dcgm"))


def summary(world: World, run: str) -> tuple[float, float]:
    """Return the seconds and the joules of a run on its GPU."""
    row = world.connection.execute(
        "select seconds, total from run_summary where run_id = %s and quantity = 'gpu_power' and metric is null", (run,)
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def areas(world: World) -> dict[str, float]:
    """Return the sum of all samples, of any run and of none, by relation."""
    found = {"samples": "select sum(value * dt::float8) from samples"}
    found |= {level: f"select sum(area) from {level}" for level in LEVELS}
    rows = {name: world.connection.execute(query.encode()).fetchone() for name, query in found.items()}
    return {name: row[0] / 1000 for name, row in rows.items() if row is not None}


@pytest.mark.parametrize("known", ["before", "after"])
def test_a_gap_of_a_counter_is_divided_between_who_was_there(world: World, start: float, known: str) -> None:
    if known == "after":
        energy(world, start, [*BEFORE, *AFTER])
        world.refresh()
    runs = [world.run(start + begin, start + end, position=n, gpu=GPU) for n, (begin, end) in enumerate((A, B), 1)]
    if known == "before":
        energy(world, start, [*BEFORE, *AFTER])
    world.write()
    world.refresh()
    for run, (begin, end) in zip(runs, (A, B), strict=True):
        assert summary(world, run) == pytest.approx((end - begin, WATTS * (end - begin)), rel=1e-5)
        [(low, high, seconds, joules)] = world.connection.execute(
            """
            select extract(epoch from min(time - dt * interval '1 s'))::float8, extract(epoch from max(time))::float8,
                   sum(dt::float8), sum(value * dt)
            from run_samples where run_id = %s and quantity = 'gpu_power'
            """,
            (run,),
        ).fetchall()
        assert (low - start, high - start) == pytest.approx((begin, end), abs=1e-3)
        assert (seconds, joules) == pytest.approx((end - begin, WATTS * (end - begin)), rel=1e-5)
        for step in (1, 10, 60):
            points = chart(world, [run], ["gpu_power"], step, aligned=True)
            assert [point[4] for point in points] == pytest.approx([WATTS] * len(points), rel=1e-5)
        assert min(value.start for value in counters_of(world.connection, run, ["gpu_power"])) >= 0
    every = AFTER[-1] - BEFORE[0]
    assert areas(world) == pytest.approx(dict.fromkeys(["samples", *LEVELS], WATTS * every), rel=1e-6)
    [(whole,)] = world.connection.execute(
        "select sum(joules) from energy(to_timestamp(%s), to_timestamp(%s))", (start - 600, start + 1200)
    ).fetchall()
    assert whole == pytest.approx(WATTS * every, rel=1e-6)


def test_an_end_that_becomes_known_late_divides_what_was_written(world: World, start: float) -> None:
    run = world.run(start + A[0], gpu=GPU)
    energy(world, start, [*BEFORE, *AFTER])
    world.refresh()
    if inspect(world.connection).flavour is Flavour.TIMESCALEDB:
        world.connection.execute("select compress_chunk(show_chunks('samples'))")
    world.end(run, start + A[0], start + A[1])
    world.write()
    world.refresh()
    assert summary(world, run) == pytest.approx((A[1] - A[0], WATTS * (A[1] - A[0])), rel=1e-5)
    every = WATTS * (AFTER[-1] - BEFORE[0])
    assert areas(world) == pytest.approx(dict.fromkeys(["samples", *LEVELS], every), rel=1e-6)


@pytest.mark.parametrize("known", ["before", "after"])
def test_a_run_ends_with_a_scrape(world: World, start: float, known: str) -> None:
    """Counts up to the very end are the run's, and later ones are the next run's."""
    if known == "after":
        energy(world, start, range(0, 60, 10))
    runs = [world.run(start + at, start + at + 20, position=n, gpu=GPU) for n, at in enumerate((10, 30), 1)]
    if known == "before":
        energy(world, start, range(0, 60, 10))
    world.write()
    assert [summary(world, run) for run in runs] == [pytest.approx((20, WATTS * 20), rel=1e-5)] * 2


@pytest.mark.parametrize("known", ["before", "after"])
def test_a_gauge_stands_for_no_time_before_the_run(world: World, start: float, known: str) -> None:
    """And what it was later is not what the run before had."""
    times, values = [start + 60 * at for at in range(4)], [100.0, 200.0, 300.0, 400.0]
    record = world.gauge("DCGM_FI_DEV_POWER_USAGE", times, values, {"UUID": GPU}, "dcgm", dt=60.0)
    if known == "after":
        world.write(record)
    first = world.run(start + 50, start + 100, gpu=GPU)
    second = world.run(start + 110, start + 170, position=2, gpu=GPU)
    if known == "before":
        world.write(record)
    world.write()
    assert summary(world, first) == pytest.approx((10, 10 * 200.0), rel=1e-5)
    assert summary(world, second) == pytest.approx((10, 10 * 300.0), rel=1e-5)


def test_coverage_leaves_out_what_is_the_mean_of_a_gap(world: World, start: float) -> None:
    run = world.run(start, start + 100.5)
    head = f'bench_process_cpu_seconds_total{{run_id="{run}"}}'
    scrapes = [(start + at, f"{head} {2.0 * at!r}\n".encode()) for at in (*range(11), *range(91, 101))]
    world.write(world.scraped(scrapes, "process"))
    [(total, seconds)] = world.connection.execute(
        "select total, seconds from run_summary where quantity = 'cpu_usage' and metric is null"
    ).fetchall()
    assert (total, seconds) == pytest.approx((200, 100), rel=1e-3), "what was counted is known"
    for _ in ("computed", "stored"):
        [(coverage, every)] = world.connection.execute("select coverage, interval_seconds from run_quality").fetchall()
        assert coverage == pytest.approx(0.2, abs=0.01)
        assert every == pytest.approx(1.0, rel=0.01)
        world.connection.execute("select summarise(run_id) from runs")
