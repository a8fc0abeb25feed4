"""The pipeline in the database: targets, missing scrapes, jobs, sizes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import generate_latest

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.sql.ingest import targets
from hypergauge.sql.ingest.targets import TargetRow, TargetState
from hypergauge.sql.schema.flavour import Flavour
from tests.support.world import HOST, World

pytestmark = pytest.mark.flavours


@pytest.fixture
def now() -> float:
    """The last full second."""
    return float(int(time.time()))


def last_minute() -> float:
    """Return the end of the last complete minute, see `target_scrapes`."""
    return (time.time() - 10) // 60 * 60


def query(world: World, statement: str, *parameters: object) -> list[Any]:
    """Query with the rights of dashboards."""
    with world.connection.transaction():
        world.connection.execute("set local role bench_reader")
        return world.connection.execute(statement.encode(), parameters).fetchall()


def hold(world: World, *exporters: str) -> None:
    """Register targets of a collector; all are up."""
    rows = [TargetRow(HOST, exporter, "", f"http://{exporter}") for exporter in exporters]
    ids = targets.claim_targets(world.connection, "mine", HOST, 1, rows)
    states = {one: TargetState(True, time.time(), 0.002, 0.001) for one in ids if one is not None}
    targets.report_targets(world.connection, states, "mine")


def up(world: World, exporter: str, times: Iterable[float], interval: float = 1.0) -> None:
    moments = list(times)
    labels = {"exporter": exporter}
    world.write(world.gauge("bench_exporter_up", moments, [1.0] * len(moments), labels, exporter, interval))


def test_a_collectors_own_metrics_belong_to_no_run(world: World, now: float) -> None:
    run = world.run(now - 60)
    metrics = CollectorMetrics()
    expositions = []
    for second in range(3):
        metrics.samples.inc(500)
        metrics.scrapes.labels("timeout").inc(2)
        metrics.scrape_seconds.observe(0.5)
        metrics.lag_seconds.observe(0.25)
        metrics.spool_bytes.set(4096)
        expositions.append((now - 20 + 10 * second, generate_latest(metrics.registry)))
    world.write(world.scraped(expositions, "collector", 10.0))
    rows = query(
        world,
        "select quantity, series, max(value) from series_chart(array['collector_samples', 'collector_scrapes',"
        " 'collector_spool_size'], to_timestamp(%s), to_timestamp(%s), 10000, 'outcome') group by 1, 2 order by 1",
        now - 60,
        now + 1,
    )
    assert rows == [
        ("collector_samples", "", 50),
        ("collector_scrapes", "timeout", pytest.approx(0.2)),
        ("collector_spool_size", "", 4096),
    ]
    times = query(
        world,
        "select what, max(seconds) from collector_times(to_timestamp(%s), to_timestamp(%s), 10000) group by 1",
        now - 60,
        now + 1,
    )
    assert dict(times) == {"a scrape takes": pytest.approx(0.25), "a scrape is late by": pytest.approx(0.125)}
    assert query(world, "select from run_samples where run_id = %s", run) == []
    unknown = query(
        world,
        "select distinct metric from series where metric_id is null and metric !~ '_(created|bucket)$' order by 1",
    )
    assert unknown == [(f"bench_collector_{name}_seconds_count",) for name in ("scrape_lag", "scrape")], (
        "in the catalog"
    )


def test_a_repeated_last_sample_is_no_error(world: World, now: float) -> None:
    metrics = CollectorMetrics()
    expositions = []
    for second in range(3):
        metrics.dropped.labels("stale").inc(40)
        metrics.dropped.labels("malformed").inc(2)
        metrics.scrapes.labels("ok").inc(10)
        expositions.append((now - 20 + 10 * second, generate_latest(metrics.registry)))
    world.write(world.scraped(expositions, "collector", 10.0))
    world.refresh()
    rows = query(world, "select * from collector_errors(to_timestamp(%s), to_timestamp(%s))", now - 60, now + 1)
    assert rows == [("lines gave no sample", "malformed", pytest.approx(4))]


def test_missing_scrapes_are_counted(world: World) -> None:
    start = last_minute() - 600
    hold(world, "host", "nvml")
    up(world, "host", (start + at for at in range(600) if not 120 <= at < 150))
    up(world, "nvml", (start + at for at in range(0, 600, 2)), 2.0)
    world.refresh()
    rows = query(
        world,
        "select target, extract(epoch from time)::float8, came, wanted, share"
        " from target_scrapes(to_timestamp(%s), to_timestamp(%s), 60000)",
        start,
        start + 600,
    )
    expected = {
        (name, start + 60 * n): 60.0 if name == "host" else 30.0 for n in range(1, 10) for name in ("host", "nvml")
    }
    assert {(target, at): wanted for target, at, _, wanted, _ in rows} == pytest.approx(expected)
    assert [row for row in rows if row[4] < 1] == [("host", start + 120, 30, pytest.approx(60), pytest.approx(0.5))]


def test_scrapes_that_a_run_did_not_choose_are_not_missed(world: World) -> None:
    start = last_minute() - 600
    hold(world, "host", "nvml")
    world.run(start + 180, start + 300, exporters={"nvml": 0.5})
    up(world, "host", (start + at for at in range(600) if not 180 <= at < 300))
    up(world, "nvml", (start + at for at in range(600) if not 420 <= at < 450))
    world.refresh()
    rows = query(
        world,
        "select target, extract(epoch from time)::float8, came, share"
        " from target_scrapes(to_timestamp(%s), to_timestamp(%s), 60000)",
        start,
        start + 600,
    )
    judged = [60 * n for n in (1, 6, 7, 8, 9)]  # the minutes around the run are left out too
    assert sorted({at - start for _, at, _, _ in rows}) == judged
    assert [row for row in rows if row[3] < 1] == [("nvml", start + 420, 30, pytest.approx(0.5))]


def test_without_a_collector_no_scrape_is_missed(world: World) -> None:
    start = last_minute() - 1200
    hold(world, "host")
    up(world, "host", (start + at for at in range(1200) if not 300 <= at < 900))
    up(world, "removed", (start + at for at in range(240)))
    world.refresh()
    rows = query(
        world,
        "select target, count(*)::int, min(share) from target_scrapes(to_timestamp(%s), to_timestamp(%s), 60000)"
        " group by 1 order by 1",
        start,
        start + 1200,
    )
    assert rows == [("host", 9, 1.0), ("removed", 2, 1.0)]


def test_a_stop_within_a_step_misses_no_scrape(world: World) -> None:
    start = last_minute() - 1200
    hold(world, "host", "nvml")
    ran = [at for at in range(1200) if not 320 <= at < 890]
    up(world, "host", (start + at for at in ran))
    up(world, "nvml", (start + at for at in ran if at % 2 == 0 and not 900 <= at < 910), 2.0)
    world.refresh()
    rows = query(
        world,
        "select target, extract(epoch from time)::float8, came, wanted"
        " from target_scrapes(to_timestamp(%s), to_timestamp(%s), 60000) where share < 1 or wanted < 25 order by 2, 1",
        start,
        start + 1200,
    )
    assert rows == [
        ("host", start + 300, 20, pytest.approx(20)),
        ("nvml", start + 300, 10, pytest.approx(10)),
        ("host", start + 840, 10, pytest.approx(10)),
        ("nvml", start + 840, 5, pytest.approx(5)),
        ("nvml", start + 900, 25, pytest.approx(30)),
    ]
    [missed] = query(
        world, "select sum(missed) from target_health(to_timestamp(%s), to_timestamp(%s))", start, start + 1200
    )
    assert missed == (pytest.approx(5, abs=0.5),)


def test_lateness_is_the_age_of_the_newest_sample(world: World, now: float) -> None:
    hold(world, "host", "nvml")
    up(world, "host", (now - 30 + at for at in range(30)))
    up(world, "nvml", [now - 7200])
    rows = query(
        world,
        "select target, up, round(lag)::int, interval_seconds, series, clock_offset"
        " from target_health(now() - interval '1 hour', now())",
    )
    assert [row[:2] + row[3:] for row in rows] == [("host", True, 1, 1, 0.002), ("nvml", True, None, 1, 0.002)]
    assert 0 <= rows[0][2] <= 10
    assert rows[1][2] is None


def test_targets_of_one_exporter_are_distinguished(world: World) -> None:
    for host, exporter, instance in [("a", "host", ""), ("b", "host", ""), ("a", "nvml", "/x"), ("a", "nvml", "/y")]:
        targets.register_target(world.connection, host=host, listener=exporter, instance=instance, url="http://x")
    targets.register_target(world.connection, host="a", listener="dcgm", instance="a:9400", url="http://x")
    rows = query(world, "select target from target_names order by 1")
    assert [name for (name,) in rows] == ["dcgm", "host a", "host b", "nvml a /x", "nvml a /y"]


def test_jobs_and_sizes(world: World, flavour: Flavour, now: float) -> None:
    up(world, "host", (now - 100 + at for at in range(100)))
    world.refresh()
    world.connection.execute("analyze")
    jobs = {(job, relation) for job, relation in query(world, "select job, relation from storage_jobs")}
    sizes = {name: (rows, size) for name, rows, size in query(world, "select relation, rows, bytes from storage_sizes")}
    packed = query(world, "select compressed from storage_sizes where relation = 'samples'")
    assert sizes["samples"][0] > 0, "an estimate"
    assert sizes["samples"][1] > 8192
    if flavour is Flavour.POSTGRESQL:
        assert [job.partition(":")[0] for job, _ in jobs] == ["none"]
        assert "samples_10s_stored" in sizes
        assert packed == [(1.0,)]
        assert sizes["samples"][0] == 100
    else:
        assert ("refresh of aggregates", "") in jobs
        assert {("compression", name) for name in ("samples", "samples_10s", "samples_1m", "samples_10m")} <= jobs
        assert {"samples_10s", "samples_1m", "samples_10m"} <= sizes.keys()
