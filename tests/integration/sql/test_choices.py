"""Choices on dashboards, with their names, colors and values."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support import grafana
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from hypergauge.sql.runs import experiments
from tests.support.world import World

START = time.time() // 60 * 60 - 7200
GPU = "GPU-1"


def rows(world: World, statement: str, *values: Any) -> list[Any]:
    """Return rows; of one column alone, its values."""
    found = world.connection.execute(statement.encode(), values).fetchall()
    return [row[0] for row in found] if found and len(found[0]) == 1 else found


def workload_ids(world: World) -> dict[str, int]:
    found = rows(world, "select concat_ws('/', experiment_id, workload), workload_id from workloads")
    return dict(found)


def test_nothing_can_be_chosen_where_there_is_nothing(world: World) -> None:
    assert rows(world, "select chosen_experiments('{newest}')") == [[]]
    assert rows(world, "select chosen_workloads('{newest,\"\"}', '{newest,\"\"}')") == [[]]
    assert rows(world, "select * from run_quantities('{\"\"}')") == []
    assert rows(world, "select * from software_keys('{\"\"}')") == []
    assert rows(world, "select * from throughput_keys('{}')") == ["runs per hour"]
    assert rows(world, "select chart_end('{\"\"}')") == ["1970-01-01T01:00:00.000Z"]
    assert rows(world, "select code from chart_notice('{\"\"}', '{cpu_usage}')") == ["no_runs"]
    assert rows(world, "select code from workload_notice('{}', '{cpu_usage}')") == ["no_runs"]


def test_charts_of_mixed_begin_with_a_metric_each(world: World) -> None:
    run = world.run(START, START + 20)
    times = [START + at for at in range(20)]
    names = ("cpu_seconds_total", "resident_memory_bytes", "read_bytes_total", "written_bytes_total", "threads")
    mine = {"run_id": run}
    world.write(*(world.gauge(f"bench_process_{name}", times, [1.0] * 20, mine, "process") for name in names))
    board = json.loads(Path("dashboards/generated/bench-mixed.json").read_text())
    variables = {one["name"]: one for one in board["templating"]["list"]}
    first = []
    for slot in "1234":
        query = grafana.variable_query(board, variables[f"metric_{slot}"], {f"run_{slot}": [run]}, grafana.Span(0, 1))
        assert query is not None
        there = rows(world, query.sql)
        initial = variables[f"metric_{slot}"]["current"]["value"]
        first.append(initial if initial in there else there[0])
    assert first == ["disk_read", "disk_write", "cpu_usage", "memory_used"]


def test_the_newest_is_where_something_was_started_last(world: World) -> None:
    world.run(START + 60, experiment=21)
    world.run(START + 120, experiment=20, workload=2)
    world.run(START, experiment=20, workload=3)
    experiments.claim_experiment(world.connection, 22, name="", source="unstarted.csv", into=True)
    ids = workload_ids(world)
    assert rows(world, "select chosen_experiments('{newest}')") == [[20]]
    assert rows(world, "select chosen_workloads('{newest}', '{newest}')") == [[ids["20/2"]]]
    assert rows(world, "select chosen_workloads('{21}', '{newest}')") == [[ids["21/1"]]]
    every = [str(one) for one in ids.values()]
    assert rows(world, "select chosen_workloads('{20,21}', %s)", every) == [[ids["20/2"], ids["20/3"], ids["21/1"]]]
    assert rows(world, "select chosen_workloads('{20}', %s)", every) == [[ids["20/2"], ids["20/3"]]]


def test_names_show_what_is_simulated_and_profiled(world: World) -> None:
    plain = world.run(START, START + 60, name="narrow")
    simulated = world.run(START, START + 60, position=2, name="wide", simulated=True)
    profiled = world.run(START, START + 60, position=3, attempt=2, name="")
    world.connection.execute("update runs set profilers = 'nsys+perf' where run_id = %s", (profiled,))
    titles = rows(world, "select run, title from run_titles(%s) order by nth", [plain, simulated, profiled])
    assert titles == [("20/1/1", "20/1/1 narrow"), ("20/1/2", "20/1/2 wide *"), ("20/1/3", "20/1/3 ◆")]
    [(workload, title)] = rows(
        world, "select workload, title from workload_titles(%s)", list(workload_ids(world).values())
    )
    assert (workload, title) == ("20/1 narrow, wide", "20/1 narrow, wide * ◆")


def test_a_run_keeps_its_color_whatever_is_chosen_beside_it_and_whatever_follows(world: World) -> None:
    runs = [world.run(START + n, START + 60, workload=1 + n // 3, position=1 + n % 3) for n in range(12)]
    statement = "select color, stroke from run_titles(%s) order by nth"
    styles = rows(world, statement, runs)
    assert len(set(styles)) == 12
    assert [rows(world, statement, [run])[0] for run in runs] == styles
    runs.append(world.run(START + 100, START + 160, workload=1, position=9))
    later = rows(world, "select run_id, t.color, t.stroke from run_titles(%s) t join run_list using (run)", runs)
    assert {run: style for run, *style in later}[runs[-1]] == [styles[0][0], "1"], "the thirteenth is drawn in dashes"
    assert [tuple({run: style for run, *style in later}[run]) for run in runs[:12]] == styles


def test_runs_of_two_experiments_differ_though_they_have_one_color(world: World) -> None:
    runs = [world.run(START, START + 60, experiment=experiment) for experiment in (20, 32)]
    for titles, chosen in (("run_titles", runs), ("workload_titles", list(workload_ids(world).values()))):
        first, second = rows(world, f"select color, stroke from {titles}(%s) order by nth", chosen)
        assert (first[0], first[1], second[1]) == (second[0], "0", "1")
        assert rows(world, f"select color, stroke from {titles}(%s)", chosen[1:]) == [first], (
            "alone it is drawn as ever"
        )


def test_a_runs_own_quantities_come_before_its_hosts(world: World) -> None:
    run = world.run(START, START + 60, gpu=GPU)
    times = [START + 1 + n for n in range(50)]
    world.write(
        world.gauge("node_load1", times, [1.0] * 50),
        world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [300.0] * 50, {"UUID": GPU}),
        world.gauge("bench_process_threads", times, [4.0] * 50, {"run_id": run}),
        world.gauge("somebody_elses_metric", times, [4.0] * 50, {"run_id": run}),
    )
    assert rows(world, "select * from run_quantities(%s)", [run]) == [
        ("threads", "threads"), ("somebody_elses_metric", ""), ("gpu_power", "watts"), ("load", "processes"),
    ]  # fmt: skip


def test_units_are_grafanas(world: World) -> None:
    assert rows(world, "select grafana_unit(unnest('{ratio,bytes/s,cores,code}'::text[]))") == [
        "percentunit", "binBps", "suffix:cores", "short",
    ]  # fmt: skip


def test_the_range_that_shows_the_longest_run_is_an_address_that_grafana_reads(world: World) -> None:
    runs = [world.run(START, START + 100), world.run(START - 90_000, START, position=2)]
    assert rows(world, "select chart_end(%s)", runs[:1]) == ["1970-01-01T00:01:41.000Z"]
    assert rows(world, "select chart_end(%s)", runs) == ["1970-01-02T01:15:00.000Z"]


def test_titles_tell_that_a_chart_ends_before_the_longest_run(world: World) -> None:
    runs = [world.run(START, START + 100), world.run(START - 9000, START - 0.2, position=2)]
    asked = "select chart_cut(%s, to_timestamp(%s), to_timestamp(%s))"
    assert rows(world, asked, runs, 0, 3600) == [" · first 01:00:00 of 02:29:59"]
    assert rows(world, asked, runs, 0, 45) == [" · first 45.0 s of 02:29:59"]
    assert rows(world, asked, runs, 0, 8999) == rows(world, asked, runs[:1], 0, 3600) == []
    assert rows(world, asked, runs, 600, 3600) == []  # a part that the user has chosen


def test_values_are_those_of_the_scope_that_a_chart_shows(world: World) -> None:
    alone = world.run(START, START + 100, workload=1, gpu=GPU)
    shared = [world.run(START + 200, START + 300, workload=2, position=n, gpu=GPU) for n in (1, 2)]
    for begin, run, cores in ((0, alone, 2.0), (200, shared[0], 1.0), (200, shared[1], 3.0)):
        times = [START + begin + 1 + n for n in range(99)]
        world.write(world.gauge("bench_process_cpu_seconds_total", times, [cores] * 99, {"run_id": run}))
    times = [START + n for n in range(1, 300)]
    world.write(
        world.gauge("node_cpu_seconds_total", times, [16.0] * 299),
        world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [100.0] * 299, {"UUID": GPU}),
    )
    world.connection.execute("select summarise(run_id) from runs")
    found = rows(
        world,
        "select title, quantity, unit, scope, mean from run_values(%s, '{cpu_usage,gpu_power}')",
        [alone, *shared],
    )
    assert found == [
        ("20/1/1 train", "cpu_usage", "cores", "process", 2), ("20/1/1 train", "gpu_power", "watts", "instance", 100),
        ("20/2/1 train", "cpu_usage", "cores", "process", 1), ("20/2/1 train", "gpu_power", "watts", "device", 100),
        ("20/2/2 train", "cpu_usage", "cores", "process", 3), ("20/2/2 train", "gpu_power", "watts", "device", 100),
    ]  # fmt: skip
    ids = list(workload_ids(world).values())
    together = rows(world, "select runs, mean, lowest, highest from workload_values(%s, '{cpu_usage}')", ids)
    assert together == [(1, 2, 2, 2), (2, 2, 1, 3)]
    totals = "select total is null from workload_values(%s, '{cpu_usage}')"
    assert rows(world, totals, ids) == [False, False]
    world.run(START + 200, START + 300, workload=2, position=3)
    assert rows(world, totals, ids) == [False, True], "nothing measured a third run of it"
    world.connection.execute("delete from runs where position = 3")

    # Only of the run that had the GPU to itself is its energy known.
    statement = "select runs, seconds, energy, energy_of, throughput from workload_results(%s, 'runs per hour')"
    whole = (1, 100, pytest.approx(10_000, rel=0.02), "whole GPUs", 36)
    assert rows(world, statement, ids) == [whole, (2, 100, None, None, 72)]
    world.connection.execute("update runs set status = 'timeout' where run_id = %s", (shared[0],))
    # Throughput counts finished runs alone: a run that crashes at once would make a workload the fastest.
    failed = "select runs, failed, throughput from workload_results(%s, 'runs per hour')"
    assert rows(world, failed, ids) == [(1, 0, 36), (2, 1, 36)]
    found = rows(
        world,
        """select runs, "values" ->> 'status' from workload_notice(%s, '{cpu_usage}') where code = 'ended_early'""",
        ids,
    )
    assert found == [(["20/2/1"], "timeout")]
    world.connection.execute("update runs set status = 'finished'")
    for run, watts in zip(shared, (20.0, 30.0), strict=True):
        times = [START + 201 + n for n in range(99)]
        world.write(world.gauge("bench_gpu_attributed_energy_joules_total", times, [watts] * 99, {"run_id": run}))
        world.connection.execute("select summarise(%s)", (run,))
    assert rows(world, statement, ids) == [whole, (2, 100, pytest.approx(4950, rel=0.02), "above idle", 72)]
    for run in shared:
        store_software_metrics(
            world.connection, run, [SoftwareMetric("images_per_second", n, START + 210 + n, 10.0 * n) for n in range(5)]
        )
    assert rows(world, "select throughput from workload_results(%s, 'images_per_second')", ids) == [None, 40]
    assert rows(world, "select * from throughput_keys(runs_of(%s))", ids) == ["images_per_second", "runs per hour"]


def test_a_logged_curve_has_as_many_points_as_can_be_seen(world: World) -> None:
    run = world.run(START, START + 1000)
    metrics = [SoftwareMetric("loss", n, START + n / 10, 1.0 if n != 777 else 50.0) for n in range(5000)]
    store_software_metrics(world.connection, run, [*metrics, SoftwareMetric("lr", 1, START + 1, float("nan"))])
    assert rows(world, "select * from software_keys(%s)", [run]) == ["loss", "lr"]
    by_time = rows(world, "select x, value, low, high from software_chart(%s, '{loss}', p_points => 100)", [run])
    assert 100 <= len(by_time) <= 101
    assert [x for x, *_ in by_time] == sorted(x for x, *_ in by_time)
    assert max(high for *_, high in by_time) == 50, "a peak is not lost"
    by_step = rows(world, "select x, value from software_chart(%s, '{loss}', 'step', 10000)", [run])
    assert by_step[:2] == [(0, 1), (1, 1)]
    assert len(by_step) == 5000
    assert rows(world, "select value from software_chart(%s, '{lr}')", [run]) == [None], "what was NaN is a gap"


def test_failures_lie_at_the_ends_of_their_curves(world: World) -> None:
    runs = [world.run(START + 10 * n, START + 100, position=n) for n in (1, 2, 3)]
    world.connection.execute(
        "update runs set status = 'failed', reason = 'out of memory' where run_id = %s", (runs[0],)
    )
    world.connection.execute("update runs set status = 'stopped', reason = null where run_id = %s", (runs[1],))
    found = "select extract(epoch from time)::float8, text from chart_failures(%s)"
    assert rows(world, found, runs) == [(80, "✗ 20/1/2 train: stopped"), (90, "✗ 20/1/1 train: out of memory")]
    assert rows(world, found, runs[2:]) == []
    assert rows(world, "select * from chart_failures(%s, 'step')", runs) == []


def test_phases_lie_on_the_axis_that_begins_with_the_run(world: World) -> None:
    runs = [world.run(START + 10 * n, START + 100, position=n) for n in (1, 2)]
    for run in runs:
        world.connection.execute(
            "insert into spans select %s, 's', null, 'train', 'phase', null, started_at + interval '5 s', null, 1, 'main'"
            " from runs where run_id = %s",
            (run, run),
        )
    seconds = "extract(epoch from time)::float8, extract(epoch from timeend)::float8, text"
    assert rows(world, f"select {seconds} from chart_phases(%s)", runs[:1]) == [(5, 90, "train")]
    assert rows(world, f"select {seconds} from chart_phases(%s)", runs) == [
        (5, 5, "20/1/1 train: train"), (5, 5, "20/1/2 train: train"),
    ]  # fmt: skip
    assert rows(world, "select * from chart_phases(%s, 'time', 1)", runs) == []
    assert rows(world, f"select {seconds} from chart_phases(%s, 'phase')", runs[:1]) == [(0, 85, "train")]
    store_software_metrics(world.connection, runs[0], [SoftwareMetric("loss", 7, START + 10 + 25, 0.5)])
    for align, place in (("time", 25), ("phase", 20), ("step", 7), ("phase:train", 20)):
        assert rows(world, "select x from software_chart(%s, '{loss}', %s)", runs, align) == [place]
    assert rows(world, "select x from software_chart(%s, '{loss}', 'phase:nowhere')", runs) == []


def test_of_too_many_curves_the_first_by_number_are_drawn(world: World) -> None:
    runs = [world.run(START, START + 60, position=position) for position in (10, 2, 1)]
    times = [START + n for n in range(1, 60)]
    for number, run in enumerate(runs):
        store_software_metrics(world.connection, run, [SoftwareMetric("loss", 1, START + 1, float(number))])
        world.write(world.gauge("bench_process_resident_memory_bytes", times, [1.0] * 59, {"run_id": run}))
    first = {"20/1/1", "20/1/2"}
    logged = rows(world, "select run from software_chart(%s, '{loss}', p_max_runs => 2)", runs)
    assert set(logged) == first
    world.refresh()
    chart = "select distinct run from run_chart(%s, '{memory_used}', null, null, 1000, true, 2)"
    assert set(rows(world, chart, runs)) == first
    assert set(rows(world, "select run from chart_lines(%s, '{memory_used}', 2) where drawn", runs)) == first
