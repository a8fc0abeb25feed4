"""Values of a workload: shared resources count once, and its makespan is that of one repetition."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from hypergauge.insight.comparison.columns import ENERGY_KEY
from hypergauge.insight.comparison.comparison import Comparison, compare
from hypergauge.insight.comparison.entry import Entry
from hypergauge.insight.comparison.trust import trust
from hypergauge.insight.cost.cost import costs
from hypergauge.insight.cost.tariff import Tariff
from hypergauge.sql.queries.traces import traced_runs
from tests.support.world import HOST, World

ONE, TWO, THREE = "GPU-1", "GPU-2", "GPU-3"
WATTS = {ONE: 100.0, TWO: 200.0, THREE: 400.0}


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 7200


def measure(world: World, start: float, seconds: int = 60) -> None:
    """Measure the host, 2 cores of which are busy, and its GPUs."""
    times = [start + 0.9 + at for at in range(seconds)]
    records = [world.gauge("node_cpu_seconds_total", times, [2.0] * seconds, {"cpu": "0", "mode": "user"})]
    records += [
        world.gauge("bench_gpu_power_watts", times, [watts] * seconds, {"UUID": gpu}, "nvml")
        for gpu, watts in WATTS.items()
    ]
    world.write(*records)


def run(world: World, start: float, begin: int, end: int, position: int, *gpus: str, attempt: int = 1) -> str:
    made = world.run(start + begin, start + end, position=position, gpu=gpus[0] if gpus else None, attempt=attempt)
    for gpu in gpus[1:]:
        world.connection.execute(
            "insert into placements (run_id, host, gpu_uuid, started_at, ended_at)"
            " values (%s, %s, %s, to_timestamp(%s), to_timestamp(%s))",
            (made, HOST, gpu, start + begin, start + end),
        )
    return made


def workload(world: World, scope: str | None = None, **options: object) -> tuple[Entry, Comparison]:
    found = compare(world.connection, ["20"], by="workload", scope=scope, **options)  # type: ignore[arg-type]
    [entry] = found.entries
    return entry, found


@pytest.mark.parametrize("summarised", [False, True], ids=["computed", "stored"])
def test_a_hosts_values_count_once(world: World, start: float, summarised: bool) -> None:
    made = [
        run(world, start, *when, position) for position, when in enumerate([(0, 20), (5, 15), (10, 40), (50, 60)], 1)
    ]
    measure(world, start)
    if summarised:
        world.connection.execute("select summarise(run_id) from unnest(%s::text[]) as run_id", (made,))
    entry, _ = workload(world, "host")
    assert entry.values["cpu_seconds"] == pytest.approx(2 * 50, rel=0.01), "0 to 40 and 50 to 60"
    assert entry.spread["cpu_seconds"] == pytest.approx((20, 60)), "of the runs as they are"
    assert entry.values["cpu_utilization"] == pytest.approx(2)
    alone = compare(world.connection, ["20"], scope="host").entries
    assert [round(one.values["cpu_seconds"]) for one in alone] == [40, 20, 60, 20]


def test_a_gpu_that_runs_share_counts_once(world: World, start: float, tmp_path: Path) -> None:
    run(world, start, 0, 20, 1, ONE)
    run(world, start, 10, 40, 2, ONE, TWO)
    run(world, start, 30, 50, 3, TWO)
    measure(world, start)
    joules = 100.0 * 40 + 200.0 * 40  # 0 to 40 and 10 to 50
    (tmp_path / "tariff.toml").write_text("price_per_kwh = 0.36\ncarbon_g_per_kwh = 360")
    paid = costs(Tariff.load(tmp_path / "tariff.toml"))
    entry, found = workload(world, "device", further=[paid])
    assert entry.values[ENERGY_KEY] == pytest.approx(joules, rel=0.01)
    assert entry.values["cost_eur"] == pytest.approx(joules * 1e-7, rel=0.01)
    assert entry.values["co2_grams"] == pytest.approx(joules * 1e-4, rel=0.01)
    assert missing(world, found) == []


def test_a_price_by_the_minute_is_that_of_the_time_that_counts(world: World, start: float, tmp_path: Path) -> None:
    """The second run's own part lies in an hour that is dearer."""
    hour_start = start // 3600 * 3600 + 3600
    run(world, hour_start - 30, 0, 30, 1, ONE)
    run(world, hour_start - 30, 0, 60, 2, ONE)
    run(world, hour_start - 30, 0, 60, 3, ONE)
    measure(world, hour_start - 30)
    hour = time.gmtime(hour_start).tm_hour
    (tmp_path / "tariff.toml").write_text(
        f'time_zone = "UTC"\nprice_per_kwh = 0.36\n[[times]]\nfrom = "{hour:02}:00"\nto = "{(hour + 1) % 24:02}:00"\nprice_per_kwh = 3.6\n'
    )
    entry, _ = workload(world, "device", further=[costs(Tariff.load(tmp_path / "tariff.toml"))])
    assert entry.values["cost_eur"] == pytest.approx(100 * (30 * 1e-7 + 30 * 1e-6), rel=0.02)


def test_gpus_that_are_shared_in_part_have_no_sum(world: World, start: float) -> None:
    run(world, start, 0, 40, 1, ONE, TWO)
    run(world, start, 0, 40, 2, TWO, THREE)
    measure(world, start)
    entry, found = workload(world, "device")
    assert ENERGY_KEY not in entry.values
    reason = {"reason": "gpus_shared_in_part", "other": "20/1/1"}
    assert [one for one in missing(world, found) if ENERGY_KEY in one[1]] == [(["20/1/2"], [ENERGY_KEY], reason)]


def test_what_is_shared_needs_raw_samples(world: World, start: float) -> None:
    run(world, start, 0, 20, 1)
    run(world, start, 10, 40, 2)
    measure(world, start)
    world.connection.execute("select summarise(run_id) from runs")
    world.connection.execute("update retention set raw_cutoff = now()")
    entry, found = workload(world, "host")
    assert "cpu_seconds" not in entry.values
    assert (["20/1/2"], ["cpu_seconds"], {"reason": "raw_samples_deleted"}) in missing(world, found)


def test_a_makespan_is_that_of_one_pass(world: World, start: float) -> None:
    run(world, start, 0, 10, 1)
    run(world, start, 0, 14, 2)
    assert workload(world)[0].values["makespan_seconds"] == pytest.approx(14)
    first, second = (run(world, start, 600 + at, 620 + at, position, attempt=2) for position, at in ((1, 0), (2, 5)))
    assert workload(world)[0].values["makespan_seconds"] == pytest.approx(25), "of the latest pass"
    assert totals(world) == [pytest.approx(19.5)], "the mean of both passes"
    begun = traced_runs(world.connection, [first, second])
    assert [begun[one].start for one in (first, second)] == [0, 5_000_000]


def test_a_run_that_was_repeated_alone_leaves_no_makespan(world: World, start: float) -> None:
    run(world, start, 0, 10, 1)
    run(world, start, 0, 14, 2)
    run(world, start, 6000, 6008, 2, attempt=2)
    entry, found = workload(world)
    assert [one.full_label for one in entry.runs] == ["20/1/1", "20/1/2"]
    assert "makespan_seconds" not in entry.values
    assert entry.values["duration_seconds"] == pytest.approx(9), "of the latest attempts, as everywhere"
    reason = {"reason": "not_simultaneous", "passes": [["20/1/1"], ["20/1/2"]]}
    assert (["20/1"], ["makespan_seconds"], reason) in missing(world, found)
    assert totals(world) == [pytest.approx(14)], "of the pass in which every row finished"
    [by_row, _] = compare(world.connection, ["20"], by="row").entries
    assert not by_row.missing


def missing(world: World, found: Comparison) -> list[tuple[list[str], list[str], dict[str, Any]]]:
    """Return the runs of each notice on missing metrics, the metrics and the reason."""
    notices = [one for one in trust(world.connection, found).notices if one.code == "missing_metrics"]
    return [(one.runs, one.values.pop("columns"), one.values) for one in notices]


def totals(world: World) -> list[float | None]:
    rows = world.connection.execute(
        "select seconds from workload_results(array(select workload_id from workloads), 'runs per hour')"
    ).fetchall()
    return [seconds for (seconds,) in rows]


def test_a_crashed_run_of_a_workload_is_named(world: World, start: float) -> None:
    run(world, start, 0, 60, 1, ONE)
    world.end(run(world, start, 0, 20, 2, TWO), start, start + 20, "failed")
    measure(world, start)
    entry, found = workload(world)
    assert entry.status == "failed"
    assert entry.values[ENERGY_KEY] == pytest.approx(100 * 60 + 200 * 20)
    assert [one.runs for one in trust(world.connection, found).notices if one.code == "ended_early"] == [["20/1/2"]]
    alone = compare(world.connection, ["20"])
    assert "ended_early" not in {one.code for one in trust(world.connection, alone).notices}, "each has its status"
