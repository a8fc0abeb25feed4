"""Notices of comparisons: the measurement of their runs, and values that must not be compared unseen."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

import pytest

from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.insight.comparison.comparison import compare
from hypergauge.insight.comparison.trust import trust
from hypergauge.sql.queries.notices import Notice
from hypergauge.sql.runs.calibrations import Calibration, store_calibrations
from tests.support.world import World

START = time.time() // 60 * 60 - 7200
SECONDS = 100
CPU = "bench_process_cpu_seconds_total"


def run(world: World, number: int, *, seconds: int = SECONDS, every: int = 1, gpu: str | None = None) -> str:
    """Return a run of its own workload that was measured for some of its time, one after the other."""
    start = START + 200 * number
    made = world.run(start, start + SECONDS, workload=number, gpu=gpu)
    times = [start + at for at in range(every, seconds + 1, every)]
    world.write(world.gauge(CPU, times, [1.0] * len(times), {"run_id": made}, "process", dt=every))
    return made


def host(world: World, exporters: float) -> None:
    """Write that a host of four cores was measured all the time, and what the exporters took of one."""
    times = [START + at for at in range(1500)]
    for mode, cores in (("user", 1.0), ("idle", 3.0)):
        world.write(world.gauge("node_cpu_seconds_total", times, [cores] * 1500, {"cpu": "0", "mode": mode}))
    world.write(
        world.gauge("bench_exporter_cpu_seconds_total", times, [exporters] * 1500, {"exporter": "process"}, "process")
    )


def shown(world: World, *selectors: str, scope: str | None = None) -> list[Notice]:
    found = compare(world.connection, list(selectors) or ["20"], scope=scope)
    return list(trust(world.connection, found, scope).notices)


def test_runs_that_were_measured_alike_are_one_sentence(world: World) -> None:
    host(world, 0.004)
    for number in (1, 2, 3):
        run(world, number)
    [notice] = shown(world)
    assert (notice.code, notice.severity, notice.runs) == ("measured", "info", ["20/1/1", "20/2/1", "20/3/1"])
    assert (
        notice.text
        == "Measured every 1 s by host and process, 99% of the time; the exporters took 0.1% of the host's cores."
    )
    assert notice.values["exporters"] == ["host", "process"]
    assert notice.values["overhead"] == [pytest.approx(0.001, abs=1e-4)] * 3


def test_intervals_and_exporters_that_differ_are_named(world: World) -> None:
    run(world, 1)
    run(world, 2, every=5)
    run(world, 3)
    third = [START + 601 + at for at in range(99)]
    world.write(world.gauge("bench_gpu_sm_active_ratio", third, [0.5] * 99, {"UUID": "GPU-1"}, "nvml"))
    run(world, 4, gpu="GPU-1")
    times = [START + 801 + at for at in range(99)]
    world.write(world.gauge("bench_gpu_sm_active_ratio", times, [0.5] * 99, {"UUID": "GPU-1"}, "nvml"))
    found = [one for one in shown(world) if one.code == "measured_differently"]
    assert [(one.runs, one.values["exporters"]) for one in found] == [
        (["20/1/1", "20/3/1"], ["process"]),
        (["20/2/1"], ["process"]),
        (["20/4/1"], ["nvml", "process"]),
    ]
    assert found[1].values["interval_seconds"] == [pytest.approx(5, abs=0.3)]
    assert found[1].values["coverage"] == [pytest.approx(0.95, abs=0.01)]
    assert (["20/1/1", "20/2/1", "20/3/1", "20/4/1"], {"metrics": ["cpu_usage"], "interval_seconds": [1, 5, 1, 1]}) in [
        (one.runs, one.values) for one in shown(world) if one.code == "intervals_differ"
    ]


def test_a_short_run_has_the_interval_of_its_samples(world: World) -> None:
    """It starts and ends between two samples, so that the first and the last one stand for a part."""
    runs = [
        world.run(START + 20 * n + 0.8, START + 20 * n + seconds, workload=n + 1)
        for n, seconds in enumerate((4.2, 3.3, 9.5))
    ]
    for n, (run, samples) in enumerate(zip(runs, (4, 3, 9), strict=True)):
        head = f'{CPU}{{run_id="{run}"}}'
        times = [
            START + 20 * n + 0.8,
            *(START + 20 * n + 1 + at for at in range(samples)),
            START + 20 * n + samples + 0.2,
        ]
        scrapes = [(at, f"{head} {at - START!r}\n".encode()) for at in times]
        world.write(world.scraped(scrapes, "process"))
    for _ in ("computed", "stored"):
        assert rows_of(world) == [pytest.approx(1, abs=0.01)] * 3
        assert not [one for one in shown(world) if one.code == "intervals_differ"]
        [measured] = [one for one in shown(world) if one.code.startswith("measured")]
        assert measured.text.startswith("Measured every 1 s by process, ")
        world.connection.execute("select summarise(run_id) from runs")


def test_a_run_that_cuts_both_its_samples_short_is_measured_all_the_time(world: World) -> None:
    """A short first and last sample are half of its samples, and no usual interval."""
    made = world.run(START + 0.94, START + 3.09)
    head = f'{CPU}{{run_id="{made}"}}'
    scrapes = [(START + at, f"{head} {at!r}\n".encode()) for at in (0.94, 1.0, 2.0, 3.0, 3.09)]
    world.write(world.scraped(scrapes, "process"))
    world.connection.execute("select summarise(run_id) from runs")
    [(coverage, intervals)] = world.connection.execute(
        "select coverage, intervals from run_quality join runs using (run_id)"
    ).fetchall()
    assert coverage > 0.95
    assert intervals == {"process": 1}


@pytest.mark.parametrize(
    "dts", [(0.2,), (0.06, 1.0), (0.11, 0.53), (1.0, 0.06), (0.06, 1.0, 0.12), (0.06, 1.0, 1.0, 0.118)]
)
def test_a_run_of_a_few_samples_is_measured_all_the_time(world: World, dts: tuple[float, ...]) -> None:
    made = world.run(START, START + sum(dts))
    write_own(world, made, dts)
    for _ in ("computed", "stored"):
        assert coverage_of(world) == [pytest.approx(1, abs=0.01)]
        world.connection.execute("select summarise(run_id) from runs")


def test_a_gap_of_a_run_of_a_few_samples_is_none_of_its_time(world: World) -> None:
    """Other series of the same exporter, which is scraped between runs, show its interval."""
    made = world.run(START, START + 40)
    write_own(world, made, (1.0, 38.0, 1.0))
    times = [START - 60 + at for at in (*range(61), *range(99, 150))]
    world.write(
        world.gauge("bench_exporter_cpu_seconds_total", times, [0.1] * len(times), {"exporter": "process"}, "process")
    )
    for _ in ("computed", "stored"):
        assert coverage_of(world) == [pytest.approx(3 / 40, abs=0.01)]
        world.connection.execute("select summarise(run_id) from runs")


def write_own(world: World, run: str, dts: Iterable[float]) -> None:
    """Write the seconds of each sample of a run from its start on."""
    at = START
    for dt in dts:
        at += dt
        world.write(world.gauge(CPU, [at - 1e-3], [1.0], {"run_id": run}, "process", dt=dt))


def coverage_of(world: World) -> list[float]:
    return [share for (share,) in world.connection.execute("select coverage from run_quality")]


def test_few_samples_do_not_show_the_interval(world: World) -> None:
    """Those of a run that chose 10 s; else the samples around it, as an exporter is scraped between runs."""
    chose = world.run(START + 1, START + 7, exporters={"host": 10.0})
    free = world.run(START + 60, START + 61.5, workload=2)
    world.write(world.gauge("node_load1", [START + 4.0], [1.0], dt=10.0))
    times = [START + 40 + 2 * at for at in range(30)]
    world.write(world.gauge("node_load5", times, [1.0] * 30, dt=2.0))
    world.connection.execute("select summarise(run_id) from runs")
    found = world.connection.execute("select run_id, intervals from runs order by started_at").fetchall()
    assert found == [(chose, {"host": 10}), (free, {"host": 2})]


def test_a_running_run_that_chose_no_exporter_is_measured_by_none(world: World) -> None:
    world.run(START, exporters={})
    times = [START - 60 + at for at in range(60)]
    world.write(world.gauge("node_load1", times, [1.0] * 60))
    [notice] = [one for one in shown(world) if one.code.startswith("measured")]
    assert notice.text == "Measured by no exporter."


def test_a_running_run_is_not_measured_by_an_exporter_that_is_gone(world: World) -> None:
    world.run(time.time() - 300)
    times = [START - 60 + at for at in range(60)]
    for metric, exporter in (("node_load1", "host"), ("node_load5", "node")):
        world.write(world.gauge(metric, times, [1.0] * 60, exporter=exporter))
    for exporter, seconds in (("host", 2), ("node", 600)):
        world.connection.execute(
            "update targets set last_seen = now() - make_interval(secs => %s) where listener = %s", (seconds, exporter)
        )
    [notice] = [one for one in shown(world) if one.code.startswith("measured")]
    assert notice.values["exporters"] == ["host"]


def rows_of(world: World) -> list[float]:
    return [every for (every,) in world.connection.execute("select interval_seconds from run_quality")]


def test_runs_of_which_a_part_was_measured_are_named_together(world: World) -> None:
    for number, seconds in ((1, 100), (2, 40), (3, 70)):
        run(world, number, seconds=seconds)
    world.run(START + 1000, START + 1100, workload=4)
    found = trust(world.connection, compare(world.connection, ["20"]))
    [notice] = [one for one in found.notices if one.code == "partial_process_coverage"]
    assert notice.runs == ["20/2/1", "20/3/1", "20/4/1"]
    assert notice.values["shares"] == [pytest.approx(share, abs=0.01) for share in (0.4, 0.7, 0)]
    content = found.as_dict()["quality"]
    assert [one["run"] for one in content] == ["20/1/1", "20/2/1", "20/3/1", "20/4/1"]
    assert [one["listeners"] for one in content] == [["process"], ["process"], ["process"], []]
    assert [round(one["coverage"], 1) for one in content] == [1.0, 0.4, 0.7, 0.0]
    [one] = compare(world.connection, ["20/2"], by="workload").entries
    assert one.coverage == pytest.approx(0.4)


def test_runs_that_chose_their_exporters_are_not_partly_measured(world: World) -> None:
    one = world.run(START, START + SECONDS, exporters={"nvml": 0.5, "host": 10.0}, gpu="GPU-1")
    two = world.run(START + 200, START + 300, workload=2, exporters={})
    fast, slow = [START + at / 2 for at in range(1, 200)], [START + at for at in range(10, 101, 10)]
    world.write(
        world.gauge("bench_gpu_power_watts", fast, [300.0] * len(fast), {"UUID": "GPU-1"}, "nvml", dt=0.5),
        world.gauge("node_memory_MemAvailable_bytes", slow, [1e9] * len(slow), {}, "host", dt=10.0),
    )
    world.connection.execute("select summarise(run_id) from runs")
    found = trust(world.connection, compare(world.connection, ["20"]))
    assert [(notice.runs, notice.text) for notice in found.notices if notice.code == "measured_differently"] == [
        (["20/1/1"], "20/1/1: measured by host every 10 s and nvml every 0.5 s."),
        (["20/2/1"], "20/2/1: measured by no exporter."),
    ]
    assert "partial_process_coverage" not in [notice.code for notice in found.notices]
    assert [row["coverage"] for row in found.as_dict()["quality"]] == [None, None]
    kept = world.connection.execute("select run_id, intervals from runs order by started_at").fetchall()
    assert kept == [(one, {"host": 10, "nvml": 0.5}), (two, {})]


@pytest.mark.parametrize(
    ("readings", "share", "few"), [([2], 2 / 22, False), ([2, 12], 12 / 22, False), ([2, 12, 22], 1, True)]
)
def test_a_slow_exporter_of_a_short_run_is_the_same_everywhere(
    world: World, readings: list[int], share: float, few: bool
) -> None:
    """The run chose 10 s; between runs the exporter is read each second, which is not the run's interval."""
    made = world.run(START, START + 22.1, exporters={"nvml": 10.0, "process": 10.0}, gpu="GPU-1")
    labels, dts = {"UUID": "GPU-1"}, [2.0, *[10.0] * (len(readings) - 1)]
    around = [START + at for at in (*range(-60, 0), *range(23, 90))]
    world.write(world.gauge("bench_gpu_sm_active_ratio", around, [0.0] * len(around), labels, "nvml"))
    for at, dt in zip(readings, dts, strict=True):
        world.write(world.gauge("bench_gpu_sm_active_ratio", [START + at], [0.9], labels, "nvml", dt=dt))
    ends = [(10, 10.0), (20, 10.0), (22, 2.0)]
    for at, dt in ends:
        world.write(world.gauge(CPU, [START + at], [1.0], {"run_id": made}, "process", dt=dt))
    for state in ("computed", "stored"):
        found = compare(world.connection, ["20"])
        [entry] = found.entries
        assert entry.gpu_coverage == pytest.approx(share, abs=0.01), state
        assert entry.incomplete == {"gpu_sm_active"}
        [[*_, cells]] = sheet(found, ["gpu_sm_active", "cpu_utilization"]).lines
        assert [cell.text for cell in cells] == ["90%‡", "1.00 cores"]
        notices = {one.code: one for one in trust(world.connection, found).notices}
        assert ("few_samples" in notices) is few
        assert "partial_coverage" not in notices, "named as that of GPUs"
        assert ("partial_gpu_coverage" in notices) is not few
        lines = "select quantity, round(share::numeric, 2)::float8, every from chart_lines(%s, '{gpu_sm_active,cpu_usage}', 9)"
        assert sorted(world.connection.execute(lines, ([made],))) == [
            ("cpu_usage", pytest.approx(1, abs=0.01), 10),
            ("gpu_sm_active", pytest.approx(share, abs=0.01), 10),
        ], state
        quality = world.connection.execute("select coverage, interval_seconds from run_quality").fetchall()
        assert quality == [(pytest.approx(1, abs=0.01), 10)], state
        world.connection.execute("select summarise(run_id) from runs")
    assert world.connection.execute("select intervals from runs").fetchall() == [({"nvml": 10, "process": 10},)]


def test_what_measuring_costs_is_named_where_it_was_calibrated(world: World) -> None:
    """By the calibration that measured as much or more, and has the smallest upper end."""
    for number, every in ((1, 1), (2, 5)):
        run(world, number, every=every)
    world.connection.execute("select summarise(run_id) from runs")
    host = world.connection.execute("select host from runs limit 1").fetchone()
    assert host is not None

    def calibration(listeners: str, exporters: dict[str, float], high: float, where: str = host[0]) -> Calibration:
        return Calibration(where, "train.py", listeners, exporters, 9, 0.0, -0.01, high, 0.01, 1e8)

    store_calibrations(
        world.connection,
        [
            calibration("ps@2s", {"process": 2.0}, 0.002),
            calibration("ps", {"process": 1.0}, 0.004),
            calibration("", {"process": 1.0, "host": 1.0}, 0.006),
            calibration("smi", {"nvml": 1.0}, 0.001),
            replace(calibration("top", {"process": 1.0}, 0.001), repetitions=3),
            replace(calibration("ps+top", {"process": 1.0}, 0.001), low=-0.2),
            calibration("ps", {"process": 0.1}, -0.001, "elsewhere"),
        ],
    )
    found = [one for one in shown(world) if one.code == "measuring_costs"]
    assert [(one.runs, one.values["most"]) for one in found] == [(["20/1/1"], 0.004), (["20/2/1"], 0.002)]
    store_calibrations(world.connection, [calibration("ps", {"process": 1.0}, -0.001)])
    found = [one for one in shown(world) if one.code == "measuring_costs"]
    assert [(one.runs, one.values["most"]) for one in found] == [(["20/1/1", "20/2/1"], 0)], "the newer one replaced it"


def test_what_must_not_be_compared_unseen(world: World) -> None:
    """The second shares its GPU with the third, is throttled and profiled, and utilization means less than it seems to."""
    run(world, 1, gpu="GPU-1")
    second = run(world, 2, gpu="GPU-1")
    world.run(START + 420, START + 480, workload=2, position=2, gpu="GPU-1")
    times = [START + 201 + at for at in range(300)]
    world.write(
        world.gauge("bench_gpu_utilization_ratio", times, [0.9] * 300, {"UUID": "GPU-1"}, "nvml"),
        world.gauge("bench_gpu_sm_active_ratio", times, [0.3] * 300, {"UUID": "GPU-1"}, "nvml"),
        world.gauge(
            "bench_gpu_throttled", times, [0.0] * 200 + [1.0] * 100, {"UUID": "GPU-1", "reason": "sw_power_cap"}, "nvml"
        ),
    )
    world.connection.execute("update runs set profilers = 'nsys' where run_id = %s", (second,))
    world.connection.execute("select summarise(run_id) from runs")
    found = shown(world, "20/1", "20/2/1")
    assert [
        (one.code, one.runs)
        for one in found
        if one.code not in ("measured", "measured_differently", "neighbours_changed")
    ][-4:] == [
        ("utilization_overstates", ["20/1/1", "20/2/1"]),
        ("throttled", ["20/2/1"]),
        ("shared_resource", ["20/2/1"]),
        ("profiled", ["20/2/1"]),
    ]
    assert not {"throttled", "profiled"} & {one.code for one in shown(world, "20/1")}


def test_a_value_of_the_host_is_marked_as_such(world: World) -> None:
    host(world, 0.004)
    run(world, 1)
    own = sheet(compare(world.connection, ["20"]))
    assert not any("§" in cell.text for *_, cells in own.lines for cell in cells)
    wide = sheet(compare(world.connection, ["20"], scope="host"))
    cells = dict(zip((column.title for column in wide.columns), wide.lines[0][3], strict=True))
    assert cells["CPU"].text == "1.00 cores§"
    assert wide.notes == ("§ of the whole host: not the run's own",)
