"""Queries of the contract against answers computed by hand, in both flavours."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, LiteralString

import numpy as np
import pytest

from hypergauge.dashboards.terminal.tables import experiments
from hypergauge.insight.comparison.comparison import compare
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.runs.selection import list_experiments, select_runs
from tests.support.world import World

SECONDS = 1800


@pytest.fixture
def start() -> float:
    """The start of a run, on no bucket's boundary."""
    return time.time() // 600 * 600 - 7200 + 7.25


@pytest.fixture
def run_id(world: World, start: float) -> str:
    """A run of half an hour with a CPU curve of its own, two GPUs, and a host around it."""
    run_id = world.run(start, start + SECONDS, gpu="GPU-1")
    times = [start + 0.5 + at for at in range(SECONDS)]
    cores = (np.arange(SECONDS) % 100 / 100).tolist()
    cores[700] = 64.0
    world.write(
        world.gauge("bench_process_cpu_seconds_total", times, cores, {"run_id": run_id}, "process"),
        world.gauge("bench_process_proportional_memory_bytes", times, [1e9] * SECONDS, {"run_id": run_id}, "process"),
        world.gauge("node_cpu_seconds_total", times, [0.5] * SECONDS, {"cpu": "0", "mode": "user"}),
        world.gauge("node_cpu_seconds_total", times, [0.25] * SECONDS, {"cpu": "0", "mode": "system"}),
        world.gauge("node_cpu_seconds_total", times, [0.25] * SECONDS, {"cpu": "0", "mode": "idle"}),
        world.gauge("node_cpu_seconds_total", times, [1.0] * SECONDS, {"cpu": "1", "mode": "user"}),
        world.gauge("DCGM_FI_DEV_FB_USED", times, [1000.0] * SECONDS, {"UUID": "GPU-1"}, "dcgm"),
        world.gauge("DCGM_FI_DEV_GPU_UTIL", times, [90.0] * SECONDS, {"UUID": "GPU-1"}, "dcgm"),
        world.gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", times, [0.8] * SECONDS, {"UUID": "GPU-1"}, "dcgm"),
    )
    world.refresh()
    return run_id


def chart(world: World, run_id: str, quantity: str, step: float, **options: Any) -> list[tuple[Any, ...]]:
    return world.connection.execute(
        """
        select extract(epoch from time)::float8, value, low, high, scope, series from run_chart(
            array[%(run)s], array[%(quantity)s], %(start)s, %(stop)s, %(step)s, %(aligned)s, %(max_series)s, %(scopes)s,
            %(per_device)s)
        """,
        {"run": run_id, "quantity": quantity, "step": step * 1000, "start": None, "stop": None, "aligned": True,
         "max_series": 40, "scopes": None, "per_device": False, **options},
    ).fetchall()  # fmt: skip


@pytest.mark.parametrize("step", [1, 5, 10, 60, 600])
def test_a_chart_keeps_mean_and_burst_at_every_step(world: World, run_id: str, step: int) -> None:
    points = chart(world, run_id, "cpu_usage", step)
    assert {scope for *_, scope, _ in points} == {"process"}  # the narrowest, never the host's
    assert max(high for _, _, _, high, _, _ in points) == 64.0
    assert points[0][0] == 0.0
    assert all(at % step == 0 for at, *_ in points)
    assert len(points) == pytest.approx(SECONDS / step, abs=2)
    exact = (np.arange(SECONDS) % 100 / 100).sum() + 64.0
    # Weighted by what each point stands for, the chart's mean is the run's; the last point stands for a part of a step.
    weights = np.diff([at for at, *_ in points] + [SECONDS])
    assert float(np.dot([value for _, value, *_ in points], weights)) == pytest.approx(exact, rel=0.03)


def test_a_chart_in_its_own_time_begins_with_the_run(world: World, run_id: str, start: float) -> None:
    for step in (1, 10, 60, 600):
        points = chart(world, run_id, "cpu_usage", step, aligned=False)
        assert points[0][0] == pytest.approx(start, abs=1e-5)
        assert points[-1][0] < start + SECONDS


def test_a_chart_is_cut_to_its_span(world: World, run_id: str, start: float) -> None:
    def moment(seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC)

    aligned = chart(world, run_id, "cpu_usage", 1, start=moment(600), stop=moment(660))
    assert [at for at, *_ in aligned] == list(range(600, 660))
    real = chart(world, run_id, "cpu_usage", 1, aligned=False, start=moment(start + 600), stop=moment(start + 660))
    assert 59 <= len(real) <= 61


@pytest.mark.parametrize(
    ("quantity", "options", "scope", "value"),
    [
        (
            "cpu_usage",
            {"scopes": ["host"]},
            "host",
            1.75,
        ),  # the modes of a CPU and the CPUs add up, idle does not count
        ("cpu_idle", {}, "host", 0.25),
        ("memory_used", {}, "process", 1e9),
        ("gpu_utilization", {}, "instance", 0.8),  # the profiling counter goes before the coarse one
        ("gpu_memory_used", {}, "instance", 1000 * 2**20),  # in bytes, whatever the wire has
    ],
)
def test_a_chart_speaks_canonical_units(
    world: World, run_id: str, quantity: str, options: dict[str, Any], scope: str, value: float
) -> None:
    points = chart(world, run_id, quantity, 60, **options)
    assert {(one[4], round(one[1], 6)) for one in points} == {(scope, value)}


def test_a_chart_counts_its_series_and_its_points(world: World, run_id: str) -> None:
    per_device = chart(world, run_id, "cpu_usage", 60, scopes=["host"], per_device=True)
    assert {series for *_, series in per_device} == {"20/1/1 train 0", "20/1/1 train 1"}
    capped = chart(world, run_id, "cpu_usage", 60, scopes=["host"], per_device=True, max_series=1)
    assert {series for *_, series in capped} == {"20/1/1 train 0"}
    assert len(chart(world, run_id, "cpu_usage", 0.001, max_series=1000)) < 1000


def test_a_chart_takes_either_id(world: World, run_id: str) -> None:
    row = world.connection.execute("select mlflow_run_id from runs where run_id = %s", (run_id,)).fetchone()
    assert row is not None
    assert chart(world, row[0], "cpu_usage", 60) == chart(world, run_id, "cpu_usage", 60)


@pytest.mark.parametrize("stored", [False, True], ids=["computed", "stored"])
def test_a_summary_is_exact(world: World, run_id: str, stored: bool) -> None:
    # The writer that stopped has stored it.
    assert world.connection.execute("select summarised from runs").fetchall() == [(True,)]
    if not stored:
        world.connection.execute("update runs set summarised = false")
    cores = np.arange(SECONDS) % 100 / 100
    cores[700] = 64.0
    rows = {
        (quantity, scope): statistics
        for quantity, scope, *statistics in world.connection.execute(
            "select quantity, scope, n, seconds, mean, min, max, p50, p95, total from run_summary"
            " where run_id = %s and metric is null and device is null",
            (run_id,),
        ).fetchall()
    }
    expected = [
        SECONDS, SECONDS, cores.mean(), cores.min(), 64.0, np.percentile(cores, 50), np.percentile(cores, 95), cores.sum(),
    ]  # fmt: skip
    assert rows["cpu_usage", "process"] == pytest.approx(expected, rel=1e-9)
    assert rows["cpu_usage", "host"][2] == pytest.approx(1.75)
    assert rows["gpu_utilization", "instance"][2] == pytest.approx(0.8)
    by_device = world.connection.execute(
        "select metric, device, mean from run_summary where run_id = %s and quantity = 'gpu_utilization' and metric is not null"
        " order by metric",
        (run_id,),
    ).fetchall()
    assert by_device == [
        ("DCGM_FI_DEV_GPU_UTIL", "GPU-1", pytest.approx(0.9)),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "GPU-1", pytest.approx(0.8)),
    ]


def test_a_stored_summary_is_made_anew_when_samples_come(world: World, run_id: str, start: float) -> None:
    world.write(world.gauge("node_load1", [start + 10], [3.0]))
    row = world.connection.execute("select mean from run_summary where quantity = 'load' and metric is null").fetchone()
    assert row == (3.0,)


@pytest.mark.parametrize(
    "condition",
    [
        "run_id = %(run)s",
        "run_id = any(array[%(run)s])",
        "run_id in (select run_id from runs where mlflow_run_id = (select mlflow_run_id from runs where run_id = %(run)s))",
        "exists (select from runs r join workloads using (workload_id) where r.run_id = s.run_id and experiment_id = 20)",
    ],
)
def test_summaries_are_computed_for_the_selected_runs(
    world: World, run_id: str, start: float, condition: LiteralString
) -> None:
    other = world.run(start + 3000, experiment=21)
    for quantity in ("cpu_usage", "memory_used"):
        lines = world.connection.execute(
            "explain (analyze, costs off, timing off, summary off) select * from run_summary s"
            f" where quantity = '{quantity}' and {condition}".encode(),
            {"run": run_id},
        ).fetchall()
        text = "\n".join(line for (line,) in lines)
        assert "Function Scan on compute_summary (never executed)" in text, text
    rows = world.connection.execute(
        f"select run_id from run_summary s where {condition}".encode(), {"run": run_id}
    ).fetchall()
    assert {run for (run,) in rows} == {run_id}
    assert world.connection.execute("select 1 from runs where run_id = %s and not summarised", (other,)).fetchall()


def test_stored_summaries_are_found_by_index(world: World, run_id: str) -> None:
    with world.connection.transaction(force_rollback=True):
        world.connection.execute(
            """
            insert into stored_summaries (run_id, quantity, scope, metric, n)
            select run_id, 'quantity_' || number, 'host', null, 1 from runs, generate_series(1, 20000) as number
            """
        )
        world.connection.execute("analyze stored_summaries")
        lines = world.connection.execute(
            "explain select * from run_summary join runs using (run_id) join workloads using (workload_id)"
            " where experiment_id = 20 and quantity = 'quantity_7'"
        ).fetchall()
    text = "\n".join(line for (line,) in lines)
    assert "Seq Scan on stored_summaries" not in text
    assert "quantity = 'quantity_7'" in text


def test_a_comparison_never_takes_the_hosts_value_for_the_runs(world: World, run_id: str, start: float) -> None:
    bare = world.run(start + 3000, start + 3060, position=2)
    world.write(world.gauge("node_cpu_seconds_total", [start + 3001], [1.5], {"cpu": "0", "mode": "user"}))
    first, second = compare(world.connection, ["20"]).entries
    assert first.values["cpu_utilization"] == pytest.approx((np.arange(SECONDS) % 100 / 100).mean(), rel=0.1)
    assert first.values["duration_seconds"] == pytest.approx(SECONDS)
    assert second.runs[0].run_id == bare
    assert "cpu_utilization" not in second.values
    wide = compare(world.connection, ["20"], scope="host", baseline="20/1/1")
    assert wide.entries[1].values["cpu_utilization"] == 1.5
    assert wide.entries[1].changes["cpu_utilization"] == pytest.approx(1.5 / 1.75 - 1)


def test_quality_shows_how_far_a_run_was_measured(world: World, run_id: str) -> None:
    row = world.connection.execute("select coverage, interval_seconds, simulated, shared from run_quality").fetchone()
    assert row == (pytest.approx(1.0), pytest.approx(1.0, rel=1e-3), False, False)


def test_runs_on_simulated_gpus_are_distinguished(world: World, start: float) -> None:
    world.run(start, start + 60, gpu="GPU-1", simulated=True)
    world.run(start, start + 60, gpu="GPU-2", position=2)
    world.run(start, start + 60, gpu="GPU-3", position=3)
    world.write(world.gauge("bench_gpu_power_watts", [start + 1], [70.0], {"UUID": "GPU-3", "simulated": "true"}))
    rows = world.connection.execute(
        "select position, q.simulated from run_quality q join runs using (run_id) order by position"
    ).fetchall()
    assert rows == [(1, True), (2, False), (3, True)]
    titles = world.connection.execute(
        "select run_title(w, r), l.simulated from runs r join workloads w using (workload_id) join run_list l using (run_id)"
        " order by r.position"
    ).fetchall()
    assert titles == [("20/1/1 train *", True), ("20/1/2 train", False), ("20/1/3 train *", True)]
    assert [run.simulated for run in select_runs(world.connection, ["20"])] == [True, False, True]


def test_how_far_a_run_was_measured_is_listed_when_it_has_ended(world: World, run_id: str) -> None:
    def listed() -> list[tuple[Any, ...]]:
        return world.connection.execute("select coverage, simulated, shared from run_list").fetchall()

    assert listed() == [(pytest.approx(1, abs=0.05), False, False)]
    world.connection.execute(
        "update runs set status = 'running', ended_at = null, summarised = false where run_id = %s", (run_id,)
    )
    assert listed() == [(None, False, False)]


def test_software_metrics_and_spans_are_stored_once(world: World, run_id: str, start: float) -> None:
    metrics = [SoftwareMetric("loss", step, start + step, 1 / (step + 1)) for step in range(3)]
    nothing = SoftwareMetric("loss", 3, start + 3, float("nan"))
    span = SpanRecord("a-1", None, "train", "phase", None, start, None, 1, "main")
    ended = SpanRecord("a-1", None, "train", "phase", None, start, start + 5, 1, "main")
    for _ in range(2):
        store_software_metrics(world.connection, run_id, [*metrics, nothing])
        store_spans(world.connection, run_id, [span, ended])
    rows = world.connection.execute("select step, elapsed, value from software_metrics order by step").fetchall()
    assert rows == [(step, pytest.approx(step, abs=1e-5), value) for step, value in enumerate([1.0, 0.5, 1 / 3, None])]
    assert world.connection.execute("select extract(epoch from ended_at - started_at) from spans").fetchall() == [(5,)]


def test_a_label_without_an_attempt_is_the_latest_one_everywhere(world: World, start: float) -> None:
    world.run(start, start + 5)
    world.write(world.gauge("node_load1", [start + 1], [1.0]))
    assert labels(world) == (["20/1/1"], ["20/1/1"], ["20/1/1"])
    world.run(start + 10, start + 15, attempt=2)
    world.write(world.gauge("node_load1", [start + 11], [2.0]))
    assert labels(world) == (["20/1/1@1", "20/1/1"],) * 3
    [(latest,)] = world.connection.execute("select distinct value from run_samples where run = '20/1/1'").fetchall()
    assert latest == 2
    assert [run.attempt for run in select_runs(world.connection, ["20/1/1", "20/1/1@1"])] == [2, 1]


def test_stopped_runs_of_an_experiment_are_counted_apart(world: World, start: float) -> None:
    for position, status in enumerate(("finished", "failed", "timeout", "stopped", "stopped"), 1):
        world.end(world.run(start, position=position), start, start + 10, status)
    world.run(start, position=6)
    world.end(world.run(start, experiment=21), start, start + 10)
    found = {one.experiment_id: one for one in list_experiments(world.connection)}
    counts = [(one.runs, one.finished, one.failed, one.stopped, one.running) for one in found.values()]
    assert counts == [(6, 1, 2, 2, 1), (1, 1, 0, 0, 0)]
    titles = [[column.header for column in experiments(shown).columns] for shown in (list(found.values()), [found[21]])]
    assert ["stopped" in names for names in titles] == [True, False]


def labels(world: World) -> tuple[list[str], list[str], list[str]]:
    """Return the labels of all attempts in Python, in charts and in `run_samples`, in order."""
    runs = select_runs(world.connection, ["20"], every_attempt=True)
    charted = world.connection.execute(
        "select run from run_chart(%s, '{load}', null, null, 1000, false, 9) order by time",
        ([one.run_id for one in runs],),
    ).fetchall()
    sampled = world.connection.execute("select run from run_samples where quantity = 'load' order by time").fetchall()
    return [one.full_label for one in runs], [one for (one,) in charted], [one for (one,) in sampled]


@pytest.mark.flavours
def test_flags_of_runs_do_not_read_series_of_real_gpus(world: World, start: float) -> None:
    world.run(start, start + 60, gpu="GPU-1")
    world.write(world.gauge("bench_gpu_power_watts", [start + 1], [70.0], {"UUID": "GPU-1"}))

    def pages() -> int:
        """Return the pages that the flags read, with the plans of a new connection."""
        with world.database.connect() as connection:
            connection.execute("set jit = off")
            connection.execute("select * from run_flags")
            statement = "explain (analyze, buffers, format json) select * from run_flags"
            row = connection.execute(statement).fetchone()
            assert row is not None
            plan = row[0][0]["Plan"]
            return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])

    world.connection.execute("analyze")
    few = pages()
    world.connection.execute(
        "insert into series (target_id, metric, quantity, place_id, host, labels)"
        " select target_id, metric, quantity, place_id, host, labels || jsonb_build_object('part', n)"
        " from series, generate_series(1, 20000) n where place_id in (select place_id from places where gpu_uuid = 'GPU-1')"
    )
    world.connection.execute("analyze")
    assert pages() <= few + 20
