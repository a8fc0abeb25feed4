"""Notices of charts: omitted, missing and simulated values, and those that mean another thing in each run."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from hypergauge.insight.charts.chart import chart
from hypergauge.insight.comparison.comparison import compare
from hypergauge.insight.comparison.trust import trust
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from hypergauge.sql.ingest.tensors import WatchProblem, store_problems
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.runs.selection import select_runs
from tests.support.world import World

START = time.time() // 60 * 60 - 7200
GPU = "GPU-1"
Notices = list[tuple[str, list[str], dict[str, Any]]]


def notices(
    world: World, runs: list[str], quantities: list[str], most: int | None = 40, seconds: float = 100
) -> Notices:
    begin, end = datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(seconds, UTC)
    return world.connection.execute(
        'select code, runs, "values" from chart_notice(%s, %s, %s, %s, %s)', (runs, quantities, most, begin, end)
    ).fetchall()


def measured(world: World, run: str, begin: float, seconds: int = 99, *, every: int = 1) -> None:
    times = [begin + every * (1 + n) for n in range(seconds // every)]
    world.write(world.gauge("bench_process_threads", times, [4.0] * len(times), {"run_id": run}, dt=every))


@pytest.fixture
def runs(world: World) -> list[str]:
    """Three runs of 100 s, one after the other, with a quantity of their own."""
    made = [world.run(START + 200 * n, START + 200 * n + 100, workload=n + 1, gpu=GPU) for n in range(3)]
    for n, run in enumerate(made):
        measured(world, run, START + 200 * n)
    world.connection.execute("select summarise(run_id) from runs")
    return made


def test_nothing_is_noted_where_all_is_the_same(world: World, runs: list[str]) -> None:
    assert notices(world, runs, ["threads"]) == []


def test_what_a_chart_leaves_out_is_named(world: World, runs: list[str]) -> None:
    assert notices(world, runs, ["threads"], 2) == [
        ("runs_left_out", ["20/3/1"], {"metrics": ["threads"], "total": 3, "drawn": 2})
    ]
    drawn = {row[0] for row in world.connection.execute(
        "select distinct run from run_chart(%s, '{threads}', null, null, 1000, true, 2)", (runs,)
    )}  # fmt: skip
    assert drawn == {"20/1/1", "20/2/1"}


def test_what_was_not_measured_is_named(world: World, runs: list[str]) -> None:
    extra = world.run(START + 600, START + 700, workload=9)
    assert notices(world, [*runs, extra], ["threads", "load"]) == [
        ("not_measured", ["20/1/1", "20/2/1", "20/3/1", "20/9/1"], {"metrics": ["load"]}),
        ("not_measured", ["20/9/1"], {"metrics": ["threads"]}),
    ]


def test_scopes_that_differ_and_scopes_that_are_not_the_runs_own(world: World, runs: list[str]) -> None:
    beside = world.run(START + 400, START + 500, workload=3, position=2, gpu=GPU)
    measured(world, beside, START + 400)
    times = [START + n for n in range(1, 500)]
    world.write(
        world.gauge("node_load1", times, [1.0] * 499),
        world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [300.0] * 499, {"UUID": GPU}),
        world.gauge("DCGM_FI_DEV_GPU_TEMP", times, [60.0] * 499, {"UUID": GPU}),
    )
    world.connection.execute("select summarise(run_id) from runs")
    assert notices(world, [*runs, beside], ["threads", "gpu_power", "gpu_temperature", "load"]) == [
        ("scopes_differ", ["20/1/1", "20/2/1"], {"metrics": ["gpu_power", "gpu_temperature"], "scope": "instance"}),
        ("scopes_differ", ["20/3/1", "20/3/2"], {"metrics": ["gpu_power", "gpu_temperature"], "scope": "device"}),
        ("wide_scope", ["20/1/1", "20/2/1", "20/3/1", "20/3/2"], {"metrics": ["load"], "scope": "host"}),
        ("shared_resource", ["20/3/1", "20/3/2"], {}),
    ]


@pytest.mark.parametrize(
    ("methods", "noted"),
    [
        (["process_count"], True),
        (["sm_time", "process_count"], False),  # the second at its start, before the driver had its share
        (["sm_time", "mps_clients"], True),  # the first while it was the only client
        (["sm_time"], False),
    ],
)
def test_a_divided_energy_is_named(world: World, methods: list[str], noted: bool) -> None:
    pair = [world.run(START, START + 100, position=n, gpu=GPU) for n in (1, 2)]
    times = [START + n for n in range(1, 100)]
    for run in pair:
        for method in methods:
            labels = {"UUID": GPU, "run_id": run, "method": method}
            world.write(world.gauge("bench_gpu_attributed_energy_joules_total", times, [100.0] * 99, labels))
    world.connection.execute("select summarise(run_id) from runs")
    found = [one for one in notices(world, pair, ["gpu_energy_attributed"]) if one[0] == "energy_divided"]
    assert found == ([("energy_divided", ["20/1/1", "20/1/2"], {})] if noted else [])
    assert not [one for one in notices(world, pair, ["threads"]) if one[0] == "energy_divided"]
    page = world.connection.execute("select code from run_notice(%s, to_timestamp(%s), now())", (pair[0], START))
    assert (("energy_divided",) in page.fetchall()) == noted


@pytest.mark.parametrize(
    ("metric", "labels", "quantity"),
    [
        ("bench_gpu_attributed_energy_joules_total", {"UUID": GPU}, "gpu_energy_attributed"),
        ("bench_rapl_attributed_energy_joules_total", {"domain": "package"}, "cpu_energy_attributed"),
    ],
)
def test_an_energy_without_idle_power_is_named(
    world: World, metric: str, labels: dict[str, str], quantity: str
) -> None:
    pair = [world.run(START, START + 100, position=n, gpu=GPU) for n in (1, 2)]
    times = [START + n for n in range(1, 100)]
    for run, method in zip(pair, ("sm_time", "sm_time_no_idle"), strict=True):
        world.write(world.gauge(metric, times, [100.0] * 99, {**labels, "run_id": run, "method": method}))
    for quantities, named in (([quantity], ["20/1/2"]), (["threads"], [])):
        codes = {code: runs for code, runs, _ in notices(world, pair, quantities)}
        assert codes.get("idle_power_unknown", []) == named
    page = world.connection.execute("select code from run_notice(%s, to_timestamp(%s), now())", (pair[1], START))
    assert ("idle_power_unknown",) in page.fetchall()
    comparison = {one.code for one in trust(world.connection, compare(world.connection, ["20"])).notices}
    assert "idle_power_unknown" in comparison


def test_sources_that_differ(world: World, runs: list[str]) -> None:
    for n, metric in enumerate(["bench_gpu_power_watts", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE"]):
        times = [START + 200 * n + m for m in range(1, 100)]
        world.write(world.gauge(metric, times, [300.0] * 99, {"UUID": GPU}))
    world.connection.execute("select summarise(run_id) from runs")
    assert notices(world, runs, ["gpu_power"]) == [
        ("sources_differ", ["20/1/1"], {"metrics": ["gpu_power"], "sources": ["bench_gpu_power_watts"]}),
        ("sources_differ", ["20/2/1", "20/3/1"], {"metrics": ["gpu_power"], "sources": ["DCGM_FI_DEV_POWER_USAGE"]}),
    ]


def test_selected_scopes(world: World, runs: list[str]) -> None:
    times = [START + n for n in range(1, 500)]
    world.write(world.gauge("node_load1", times, [1.0] * 499))
    world.connection.execute("select summarise(run_id) from runs")
    query = "select code, runs, \"values\" from chart_notice(%s, '{threads,load}', null, p_scopes => %s)"
    assert world.connection.execute(query, (runs[::-1], ["process"])).fetchall() == [
        ("not_measured", ["20/3/1", "20/2/1", "20/1/1"], {"metrics": ["load"]})
    ]
    assert world.connection.execute(query, (runs, ["host", "process"])).fetchall() == [
        ("wide_scope", ["20/1/1", "20/2/1", "20/3/1"], {"metrics": ["load"], "scope": "host"})
    ]


def test_silent_series_of_a_host_during_a_run(world: World, runs: list[str]) -> None:
    world.write(world.gauge("node_load1", [START + n for n in range(1, 100)], [1.0] * 99))
    world.connection.execute("select summarise(run_id) from runs")
    assert notices(world, runs, ["load"]) == [
        ("not_measured", ["20/2/1", "20/3/1"], {"metrics": ["load"]}),
        ("wide_scope", ["20/1/1"], {"metrics": ["load"], "scope": "host"}),
    ]


def test_each_gpu_has_a_source_of_its_own(world: World) -> None:
    run = world.run(START, START + 100, gpu=GPU)
    world.connection.execute(
        "insert into placements (run_id, host, gpu_uuid, started_at, ended_at)"
        " select run_id, host, 'GPU-2', started_at, ended_at from placements where run_id = %s",
        (run,),
    )
    other = world.run(START + 200, START + 300, workload=2, gpu=GPU)
    for metric, gpu in (("DCGM_FI_DEV_POWER_USAGE", GPU), ("bench_gpu_power_watts", "GPU-2")):
        times = [START + n for n in range(1, 300)]
        world.write(world.gauge(metric, times, [300.0] * 299, {"UUID": gpu}))
    world.connection.execute("select summarise(run_id) from runs")
    assert notices(world, [run, other], ["gpu_power"]) == [
        (
            "sources_differ",
            ["20/1/1"],
            {"metrics": ["gpu_power"], "sources": ["DCGM_FI_DEV_POWER_USAGE", "bench_gpu_power_watts"]},
        ),
        ("sources_differ", ["20/2/1"], {"metrics": ["gpu_power"], "sources": ["DCGM_FI_DEV_POWER_USAGE"]}),
    ]


def test_intervals_that_differ(world: World, runs: list[str]) -> None:
    rare = world.run(START + 600, START + 700, workload=9)
    measured(world, rare, START + 600, seconds=100, every=5)
    listed = [
        (
            "intervals_differ",
            ["20/1/1", "20/2/1", "20/3/1", "20/9/1"],
            {"metrics": ["threads"], "interval_seconds": [1, 1, 1, 5]},
        ),
    ]
    assert notices(world, [*runs, rare], ["threads"]) == listed, "before the last run has its summary"
    world.connection.execute("select summarise(run_id) from runs")
    assert notices(world, [*runs, rare], ["threads"]) == listed


def test_values_of_a_part_of_the_time(world: World, runs: list[str]) -> None:
    short = world.run(START + 600, START + 700, workload=9)
    measured(world, short, START + 600, seconds=40)
    world.connection.execute("select summarise(run_id) from runs")
    assert notices(world, [*runs, short], ["threads"]) == [
        ("partial_coverage", ["20/9/1"], {"metrics": ["threads"], "shares": [pytest.approx(0.4, abs=0.01)]})
    ]


def test_runs_shorter_than_the_interval_have_no_other_interval(world: World) -> None:
    """The exporter's own series show its interval; after the raw samples only the stored one does."""
    start = START - 60 * 86_400
    times = [start - 10 + n for n in range(150)]
    labels = {"exporter": "process"}
    world.write(world.gauge("bench_exporter_cpu_seconds_total", times, [0.1] * len(times), labels, "process"))
    parts = [[0.3], [0.1, 0.2], [0.2, 0.1], [0.15, 0.15], [1.0] * 30]
    runs = []
    for n, dts in enumerate(parts):
        begin = start + 10 * n + 0.2
        runs.append(world.run(begin, begin + sum(dts), workload=n + 1))
        ends = [begin + sum(dts[: at + 1]) - 1e-3 for at in range(len(dts))]
        world.write(
            *(
                world.gauge("bench_process_cpu_seconds_total", [end], [1.0], {"run_id": runs[-1]}, "process", dt=dt)
                for end, dt in zip(ends, dts, strict=True)
            )
        )
    for state in ("raw samples", "their summaries", "no raw samples"):
        assert notices(world, runs, ["cpu_usage"], seconds=30) == [], state
        found: dict[str, float] = dict(
            world.connection.execute("select run_id, interval_seconds from run_quality").fetchall()
        )
        assert [found[run] for run in runs] == pytest.approx([1.0] * 5, abs=0.05), state
        world.connection.execute("select summarise(run_id) from runs where not summarised")
        if state == "their summaries":
            world.refresh()
            aggregates.keep_raw(world.connection, 30)
            aggregates.maintain(world.connection)
            assert world.connection.execute("select count(*) from samples").fetchone() == (0,)


@pytest.mark.parametrize(("readings", "noted"), [(3, False), (2, True)])
def test_a_gauge_of_a_short_run_lacks_less_than_an_interval(
    world: World, runs: list[str], readings: int, noted: bool
) -> None:
    short = world.run(START + 600, START + 603.5, workload=9)
    measured(world, short, START + 599.3, seconds=readings)
    for _ in ("computed", "stored"):
        found = [code for code, _, _ in notices(world, [*runs, short], ["threads"])]
        assert ("partial_coverage" in found) is noted
        world.connection.execute("select summarise(run_id) from runs")


def test_runs_that_are_simulated_profiled_or_not_over(world: World, runs: list[str]) -> None:
    world.connection.execute("update runs set simulated = true where run_id = any(%s)", (runs[:2],))
    world.connection.execute("update runs set profilers = 'nsys' where run_id = %s", (runs[2],))
    others = [world.run(START, START + 100, workload=6, position=n) for n in (10, 9)]
    world.connection.execute("update runs set profilers = 'ncu+torch' where run_id = any(%s)", (others,))
    for other in others:
        measured(world, other, START)
    store_problems(world.connection, runs[0], [WatchProblem("out of memory"), WatchProblem("a full disk")])
    going = world.run(time.time() - 10, None, workload=8)
    measured(world, going, time.time() - 10, seconds=9)
    assert notices(world, [*runs, going, *others[::-1]], ["threads"]) == [
        ("shared_resource", ["20/6/9", "20/6/10"], {}),
        ("simulated_gpu", ["20/1/1", "20/2/1"], {}),
        ("profiled", ["20/3/1"], {"profilers": ["nsys"]}),
        ("profiled", ["20/6/9", "20/6/10"], {"profilers": ["ncu", "torch"]}),
        ("watch_failed", ["20/1/1"], {"problems": ["a full disk", "out of memory"]}),
        ("running", ["20/8/1"], {}),
    ]


def test_utilization_and_busy_time_are_distinguished_where_both_are_known(world: World, runs: list[str]) -> None:
    times = [START + n for n in range(1, 500)]
    world.write(world.gauge("bench_gpu_utilization_ratio", times, [0.9] * 499, {"UUID": GPU}))
    assert notices(world, runs, ["gpu_utilization"]) == [], "there is nothing better"
    world.write(world.gauge("bench_gpu_sm_active_ratio", times[:150], [0.3] * 150, {"UUID": GPU}))
    world.connection.execute("select summarise(run_id) from runs")
    assert notices(world, runs, ["gpu_utilization"]) == [
        ("utilization_overstates", ["20/1/1"], {"metrics": ["gpu_utilization"], "better": "gpu_sm_active"})
    ]
    assert notices(world, [runs[0]], ["gpu_sm_active"]) == notices(world, runs[1:], ["gpu_utilization"]) == []


def test_runs_that_were_held_back_and_runs_that_the_exporters_held_back(world: World, runs: list[str]) -> None:
    times = [START + n for n in range(1, 300)]
    held = [1.0] * 50 + [0.0] * 249
    world.write(world.gauge("bench_gpu_throttled", times, held, {"UUID": GPU, "reason": "sw_power_cap"}))
    for mode, cores in (("user", 1.0), ("idle", 3.0)):
        world.write(world.gauge("node_cpu_seconds_total", times, [cores] * 299, {"cpu": "0", "mode": mode}))
    used = [0.02] * 150 + [0.2] * 149
    world.write(world.gauge("bench_exporter_cpu_seconds_total", times, used, {"exporter": "nvml"}, "nvml"))
    world.connection.execute("select summarise(run_id) from runs")
    assert notices(world, runs, ["threads"]) == [
        ("throttled", ["20/1/1"], {"shares": [pytest.approx(0.51, abs=0.005)]}),
        ("exporter_overhead", ["20/2/1"], {"shares": [pytest.approx(0.05, abs=0.0005)]}),
    ]
    going = world.run(START + 600, workload=9, gpu="GPU-2")
    world.write(world.gauge("bench_gpu_throttled", [START + 601], [1.0], {"UUID": "GPU-2", "reason": "sw_power_cap"}))
    assert [code for code, *_ in notices(world, [going], [])] == ["range_mismatch", "running"]


@pytest.mark.parametrize(("seconds", "listed"), [(90, True), (101, False), (290, False), (310, True)])
def test_a_range_of_time_that_does_not_fit(world: World, runs: list[str], seconds: float, listed: bool) -> None:
    expected: Notices = [("range_mismatch", [], {"shown_seconds": seconds, "longest_seconds": 100})]
    assert notices(world, runs, ["threads"], seconds=seconds) == (expected if listed else [])


def test_workloads_count_as_one_series_each(world: World, runs: list[str]) -> None:
    ids = [row[0] for row in world.connection.execute("select workload_id from workloads order by workload")]
    found = world.connection.execute("select * from workload_notice(%s, '{threads}', 2, 1)", (ids,)).fetchall()
    assert found == [
        ("workloads_left_out", "warning", [], {"total": 3, "drawn": 2, "workloads": ["20/3 train"]}),
        ("bands_left_out", "info", [], {"drawn": 1}),
    ]
    assert world.connection.execute("select * from workload_notice(%s, '{threads}')", (ids,)).fetchall() == []


def test_a_mean_over_fewer_runs_is_noted(world: World) -> None:
    for workload, seconds in ((1, (100, 95)), (2, (100, 50))):
        for position, lasted in enumerate(seconds, 1):
            run = world.run(START, START + lasted, workload=workload, position=position)
            world.write(world.gauge("bench_process_threads", [START + 1], [1.0], {"run_id": run}))
    ids = [row[0] for row in world.connection.execute("select workload_id from workloads")]
    found = world.connection.execute("select * from workload_notice(%s, '{threads}')", (ids,)).fetchall()
    assert ("mean_of_fewer", "warning", [], {"workloads": ["20/2"]}) in found
    drawn = chart(world.connection, select_runs(world.connection, ["20"]), ["threads"], by="workload")
    assert [one.values for one in drawn.notices if one.code == "mean_of_fewer"] == [{"workloads": ["20/2"]}]


def test_a_metric_that_was_not_finite_is_named_and_its_curve_has_a_gap(world: World, runs: list[str]) -> None:
    losses = [2.0, 1.0, math.nan, math.inf, 0.5]
    for run, values in ((runs[0], losses), (runs[1], losses[:2]), (runs[2], [math.nan])):
        begin = START + 200 * runs.index(run)
        logged = [SoftwareMetric("loss", 10 * step, begin + step + 1, value) for step, value in enumerate(values)]
        store_software_metrics(world.connection, run, logged)
    expected = ("not_finite", ["20/1/1", "20/3/1"], {"metrics": ["loss"], "steps": [20, 0]})
    assert notices(world, runs, ["threads"]) == [expected]
    page = world.connection.execute(
        "select code, runs, \"values\" from run_notice(%s, '-infinity', 'infinity') where code = 'not_finite'",
        (runs[0],),
    )
    assert page.fetchall() == [("not_finite", ["20/1/1"], {"metrics": ["loss"], "steps": [20]})]
    found = compare(world.connection, ["20"])
    assert [one.runs for one in trust(world.connection, found).notices if one.code == "not_finite"] == [expected[1]]

    selected = select_runs(world.connection, ["20"])
    [first, second, third] = chart(world.connection, selected, ["loss"]).series
    assert first.points()["value"] == [2.0, 1.0, None, None, 0.5]
    assert [first.points()["low"], first.points()["high"]] == [first.points()["value"]] * 2
    assert second.points()["value"] == [2.0, 1.0]
    assert third.points()["value"] == [None]
    by_workload = chart(world.connection, selected, ["loss"], by="workload").series
    assert by_workload[0].points()["value"] == [2.0, 1.0, None, None, 0.5]
    line = world.connection.execute(
        "select value from run_logged(%s, '{loss}', '-infinity', 'infinity', 1) order by time", (runs[0],)
    )
    assert [value for (value,) in line] == [2.0, 1.0, None, None, 0.5]
