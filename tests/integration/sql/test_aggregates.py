"""Aggregates against raw samples at every level, in both flavours."""

from __future__ import annotations

import time

import pytest

from tests.support.world import LEVELS, World

pytestmark = pytest.mark.flavours

WEEK = 7 * 86_400
RELATIONS = ["samples", *LEVELS]


def totals(world: World, quantity: str) -> dict[str, tuple[int, float, float]]:
    """Return samples, area and greatest value of a quantity, by relation."""
    answer = {}
    for relation in RELATIONS:
        columns = "count(*), sum(value * dt), max(value)" if relation == "samples" else "sum(n), sum(area), max(max)"
        row = world.connection.execute(
            f"select {columns} from {relation} join series using (series_id) where quantity = %s".encode(), (quantity,)
        ).fetchone()
        assert row is not None
        answer[relation] = (int(row[0]), float(row[1]), float(row[2]))
    return answer


def test_a_reset_within_a_bucket_leaves_the_total_exact(world: World) -> None:
    start = time.time() // 10 * 10 - 7200
    counts_read = [
        100.0,
        105.0,
        111.5,
        2.0,
        2.5,
        9.0,
        9.25,
    ]  # resets at the fourth scrape, in the middle of a 10 s bucket
    scrapes = [(start + at, f"jobs_total {value}\n".encode()) for at, value in enumerate(counts_read)]
    world.write(world.scraped(scrapes, "app"))
    for when in ("as written", "refreshed"):
        for relation, (_, total, _) in totals(world, "jobs_total").items():
            assert total == pytest.approx((111.5 - 100) + (9.25 - 2.0), rel=1e-12), (relation, when)
        world.refresh()


def test_a_burst_of_one_second_in_a_week_stays_visible(world: World) -> None:
    end = int(time.time()) // 600 * 600 - 3600
    begin, burst = end - WEEK, end - 3 * 86_400 + 123
    steady = 2
    times = sorted({*range(begin, end, 30), *range(burst - 30, burst + 31)})
    counts = [steady * (at - begin) + (999 * steady if at > burst else 0) for at in times]
    scrapes = [(float(at), f"requests_total {count}\n".encode()) for at, count in zip(times, counts, strict=True)]
    world.write(world.scraped(scrapes, "app", interval=30))
    for when in ("as written", "refreshed"):
        for relation, (_, total, greatest) in totals(world, "requests_total").items():
            assert total == pytest.approx(counts[-1], rel=1e-12), (relation, when)
            assert greatest == pytest.approx(1000 * steady, rel=1e-6), (relation, when)
        world.refresh()


def test_what_is_written_behind_the_newest_bucket_shows_in_every_level(world: World) -> None:
    start = time.time() // 600 * 600 - 86_400
    world.write(world.gauge("queue_length", [start + at for at in range(1800)], [1.0] * 1800))
    world.refresh()
    late = [start + 300.5 + at for at in range(600)]
    world.write(world.gauge("queue_length", late, [5.0] * 600))
    world.refresh()
    for relation, (count, total, greatest) in totals(world, "queue_length").items():
        assert (count, total, greatest) == (2400, 1800 + 3000, 5.0), relation


def test_a_refresh_never_hides_what_is_still_to_be_written(world: World) -> None:
    now = time.time()
    world.write(world.gauge("queue_length", [now - 30, now - 29], [1.0, 1.0]))
    world.refresh()
    world.write(world.gauge("queue_length", [now - 28, now - 27], [1.0, 1.0]))
    assert {count for count, _, _ in totals(world, "queue_length").values()} == {4}


def test_a_gap_of_a_gauge_is_not_claimed(world: World) -> None:
    start = time.time() // 10 * 10 - 3600
    scrapes = [(start + at, b"temperature 50\n") for at in (0, 1, 2, 300, 301)]
    world.write(world.scraped(scrapes, "app"))
    for relation in LEVELS:
        row = world.connection.execute(f"select sum(seconds), sum(n) from {relation}".encode()).fetchone()
        assert row == (5.0, 5), relation


def test_a_missing_value_is_null_and_counts_no_time(world: World) -> None:
    start = time.time() // 10 * 10 - 3600
    scrapes = [(start, b"t 50\n"), (start + 1, b"t NaN\n"), (start + 2, b"t NaN\n"), (start + 3, b"t 60\n")]
    world.write(world.scraped(scrapes, "app"))
    assert world.connection.execute("select value from samples order by time").fetchall() == [(50.0,), (None,), (60.0,)]
    row = world.connection.execute("select n, seconds, area / seconds, min, max from samples_1m").fetchone()
    assert row == (3, 2.0, 55.0, 50.0, 60.0)
