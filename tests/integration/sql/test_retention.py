"""Retention of raw samples: aggregates and summaries stay, in both flavours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.transfer.backup import backup
from hypergauge.sql.transfer.restore import restore
from tests.support.data.backups import Empty
from tests.support.world import LEVELS, World

pytestmark = pytest.mark.flavours

DAY = 86_400.0


def raw(world: World) -> int:
    row = world.connection.execute("select count(*) from samples").fetchone()
    assert row is not None
    return int(row[0])


def sums(world: World) -> dict[str, tuple[int, float, float]]:
    """Return samples, area and greatest value of each aggregate."""
    found = {}
    for relation in LEVELS:
        row = world.connection.execute(
            f"select coalesce(sum(n), 0)::int, coalesce(sum(area), 0), max(max) from {relation}".encode()
        ).fetchone()
        assert row is not None
        found[relation] = row
    return found


def agree(world: World, count: int, area: float, greatest: float) -> None:
    for relation, found in sums(world).items():
        assert found == pytest.approx((count, area, greatest)), relation


def write(world: World, days_ago: float, value: float = 1.0, count: int = 600, metric: str = "queue_length") -> None:
    start = time.time() // 600 * 600 - days_ago * DAY
    world.write(world.gauge(metric, [start + at for at in range(count)], [value] * count))
    world.refresh()


def test_what_is_old_stays_in_the_aggregates_alone(world: World) -> None:
    write(world, 60, 2.0)
    write(world, 40, 3.0)
    write(world, 0.1, 4.0)
    agree(world, 1800, 600 * (2 + 3 + 4), 4.0)
    aggregates.maintain(world.connection)
    assert raw(world) == 1800, "nothing is deleted by default"
    aggregates.keep_raw(world.connection, 30)
    for _ in range(2):
        aggregates.maintain(world.connection)
        assert raw(world) == 600
        agree(world, 1800, 600 * (2 + 3 + 4), 4.0)
    aggregates.keep_raw(world.connection, None)
    aggregates.maintain(world.connection)
    agree(world, 1800, 600 * (2 + 3 + 4), 4.0)


def test_what_comes_late_is_added_to_what_is_left(world: World) -> None:
    write(world, 60)
    aggregates.keep_raw(world.connection, 30)
    aggregates.maintain(world.connection)
    assert raw(world) == 0
    write(world, 60, 5.0)  # the same series and buckets again
    write(world, 45, 7.0, metric="other")
    for _ in range(2):
        agree(world, 1800, 600 * (1 + 5 + 7), 7.0)
        aggregates.maintain(world.connection)
    assert raw(world) == 0
    agree(world, 1800, 600 * (1 + 5 + 7), 7.0)


def test_a_shorter_time_and_a_longer_one(world: World) -> None:
    for days in range(1, 50, 4):
        write(world, days)
    for keep, left in ((40, 10), (20, 5), (60, 5), (3, 1)):
        aggregates.keep_raw(world.connection, keep)
        aggregates.maintain(world.connection)
        assert raw(world) == left * 600, keep
        agree(world, 13 * 600, 13 * 600, 1.0)
        world.refresh()
        agree(world, 13 * 600, 13 * 600, 1.0)


def test_a_run_to_be_kept_keeps_its_samples(world: World) -> None:
    start = time.time() // DAY * DAY - 50 * DAY
    kept, other = world.run(start, start + 600), world.run(start + 5 * DAY, start + 5 * DAY + 600, position=2)
    going = world.run(start + 10 * DAY, position=3)
    world.connection.execute("update runs set keep = true where run_id = %s", (kept,))
    for offset in (0, 5, 10):
        times = [start + offset * DAY + at for at in range(1200)]
        world.write(world.gauge("queue_length", times, [2.0] * 1200))
    world.refresh()
    before = summaries(world)
    aggregates.keep_raw(world.connection, 7)
    aggregates.maintain(world.connection)
    counts: dict[str, int] = dict(
        world.connection.execute("select run_id, count(*) from run_samples group by run_id").fetchall()
    )
    assert counts[kept] == 600
    assert other not in counts
    assert counts[going] == 1200, "a running run has no summary yet"
    agree(world, 3600, 7200, 2.0)
    assert summaries(world) == before, "a summary outlives the samples"


def summaries(world: World) -> list[tuple[object, ...]]:
    return world.connection.execute(
        "select run_id, quantity, n, mean, p95, total from run_summary join runs using (run_id) "
        "where metric is null and ended_at is not null order by 1, 2"
    ).fetchall()


def test_a_late_sample_leaves_the_summary_of_a_run_whose_samples_are_deleted(world: World) -> None:
    start = time.time() // DAY * DAY - 50 * DAY
    world.run(start, start + 600)
    world.write(world.gauge("queue_length", [start + at for at in range(600)], [2.0] * 600))
    before = summaries(world)
    assert [row[2] for row in before] == [600]
    aggregates.keep_raw(world.connection, 7)
    aggregates.maintain(world.connection)
    world.write(world.gauge("queue_length", [start + 0.5 + at for at in range(60)], [9.0] * 60))
    world.refresh()
    assert summaries(world) == before
    agree(world, 660, 1200 + 540, 9.0)


def test_a_move_of_the_cutoff_that_was_cut_off_continues(world: World) -> None:
    """Samples below the cutoff come between the two refreshes of a move, and after its crash."""
    if inspect(world.connection).flavour is Flavour.POSTGRESQL:
        pytest.skip("the move is one transaction")
    write(world, 60, 2.0)
    write(world, 0.1, 4.0)
    aggregates.keep_raw(world.connection, 30)
    world.connection.execute(
        "update retention set moved_from = raw_cutoff, raw_cutoff = date_trunc('day', now() - keep_raw, 'UTC')"
    )
    write(world, 60, 3.0)  # the same series and buckets, while the move is cut off
    agree(world, 1200, 600 * (2 + 4), 4.0)
    aggregates.maintain(world.connection)
    world.refresh()
    assert raw(world) == 600
    agree(world, 1800, 600 * (2 + 3 + 4), 4.0)
    write(world, 60, 5.0)
    agree(world, 2400, 600 * (2 + 3 + 4 + 5), 5.0)


@pytest.mark.parametrize("target", Flavour)
def test_a_backup_during_a_move_of_the_cutoff_is_restored_whole(
    world: World, empty: Empty, tmp_path: Path, target: Flavour
) -> None:
    if inspect(world.connection).flavour is Flavour.POSTGRESQL:
        pytest.skip("the move is one transaction")
    write(world, 60, 2.0)
    write(world, 0.1, 4.0)
    aggregates.keep_raw(world.connection, 30)
    world.connection.execute(
        "update retention set moved_from = raw_cutoff, raw_cutoff = date_trunc('day', now() - keep_raw, 'UTC')"
    )
    write(world, 60, 3.0)
    backup(world.database, tmp_path / "file")
    there = empty(target)
    restore(there, tmp_path / "file")
    with there.connect() as connection:
        restored = World(there, tmp_path / "there", connection)
        for _ in range(2):
            agree(restored, 1800, 600 * (2 + 3 + 4), 4.0)
            aggregates.maintain(connection)
            restored.refresh()
        assert raw(restored) == 600


def test_less_than_a_day_is_refused(world: World) -> None:
    with pytest.raises(Exception, match="retention_keep_raw_check"):
        aggregates.keep_raw(world.connection, 0)


def test_a_long_run_that_ends_between_two_iterations_is_summarized_before_its_samples_go(world: World) -> None:
    start = time.time() // DAY * DAY - 50 * DAY
    run = world.run(start)
    world.write(world.gauge("queue_length", [start + at for at in range(600)], [2.0] * 600))
    aggregates.keep_raw(world.connection, 7)
    aggregates.maintain(world.connection)
    assert raw(world) == 600, "while it is running"
    world.end(run, start, start + 20 * DAY)  # its collector is away
    aggregates.maintain(world.connection)
    assert [row[2:4] for row in summaries(world)] == [(600, 2.0)]
    aggregates.maintain(world.connection)
    assert raw(world) == 0


@pytest.mark.parametrize("step", [1, 5, 10, 60])
def test_a_chart_of_series_continues_below_the_raw_cutoff(world: World, step: int) -> None:
    start = time.time() // 600 * 600 - 60 * DAY
    world.write(world.gauge("node_load1", [start + at for at in range(600)], [2.0] * 600))
    aggregates.keep_raw(world.connection, 30)
    aggregates.maintain(world.connection)
    assert raw(world) == 0
    rows = world.connection.execute(
        "select extract(epoch from time)::float8 - %(start)s, value, low, high from series_chart("
        "array['load'], to_timestamp(%(start)s), to_timestamp(%(start)s + 600), %(step)s, 'host')",
        {"start": start, "step": step * 1000},
    ).fetchall()
    assert rows == [(at, 2.0, 2.0, 2.0) for at in range(0, 600, max(step, 10))]
