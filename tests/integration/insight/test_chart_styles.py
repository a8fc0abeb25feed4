"""Styles of charted runs, the time on shared GPUs, and results against a parameter."""

from __future__ import annotations

import time

import pytest

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight.charts.bars import bars
from hypergauge.insight.charts.chart import Chart, chart
from hypergauge.insight.charts.parallel import Dimension, parallel
from hypergauge.insight.charts.parameters import facets, in_order
from hypergauge.insight.charts.scatter import Scatter, scatter
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from hypergauge.sql.runs.selection import select_runs
from tests.support.world import World

SECONDS = 100


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 7200 + 7.25


def losses(world: World, run_id: str, start: float, *values: float) -> None:
    logged = [SoftwareMetric("loss", step, start + 10.0 * step, value) for step, value in enumerate(values)]
    store_software_metrics(world.connection, run_id, logged)


def styles(found: Chart) -> list[tuple[str, int, int]]:
    return [(one.label.split()[0], one.style.color, one.style.stroke) for one in found.series]


def test_a_run_has_the_style_of_the_dashboards_whatever_is_selected(world: World, start: float) -> None:
    ids = []
    for experiment, workload, positions in ((20, 1, range(1, 15)), (21, 1, range(1, 3))):
        for position in positions:
            begin = start - 10 * position  # so that those that stand last started first
            run_id = world.run(begin, begin + SECONDS, experiment=experiment, workload=workload, position=position)
            losses(world, run_id, begin, 2, 1)
            ids.append(run_id)
    drawn = styles(chart(world.connection, select_runs(world.connection, ["20", "21"]), ["loss"]))
    rows = world.connection.execute(
        "select run, color, stroke from bench_dashboard.run_titles(%s) order by nth", (ids,)
    )
    assert drawn == [(run, int(color), int(stroke)) for run, color, stroke in rows.fetchall()]
    assert [label for label, _, _ in drawn[8:11]] == ["20/1/9", "20/1/10", "20/1/11"]
    assert drawn[13][1] == 5 * 20 % 12, "the first that started"
    assert {stroke for _, _, stroke in drawn[14:]} == {1}, "the second experiment is dashed"
    alone = styles(chart(world.connection, select_runs(world.connection, ["20/1/3"]), ["loss"]))
    assert alone == [drawn[2]]
    runs = select_runs(world.connection, ["20/1/3"])
    [bar] = bars(world.connection, runs, ["loss"]).bars
    assert (bar.style.color, bar.style.stroke) == alone[0][1:]
    [mean] = chart(world.connection, runs, ["loss"], by="workload").series
    [row] = world.connection.execute(
        "select color, stroke from bench_dashboard.workload_titles(array(select workload_id from runs where run_id = %s))",
        (runs[0].run_id,),
    ).fetchall()
    assert (str(mean.style.color), str(mean.style.stroke)) == row


def test_the_time_on_a_shared_gpu_is_part_of_a_curve(world: World, start: float) -> None:
    first = world.run(start, start + SECONDS, position=1, gpu="GPU-1")
    world.run(start + 20, start + 60, position=2, gpu="GPU-1")
    times = [start + at + 1 for at in range(SECONDS)]
    world.write(world.gauge("bench_gpu_sm_active_ratio", times, [0.5] * SECONDS, {"UUID": "GPU-1"}, "nvml"))
    steps = [SoftwareMetric("loss", at, start + at, 1.0) for at in range(SECONDS)]
    store_software_metrics(world.connection, first, steps)
    runs = select_runs(world.connection, ["20"])
    found = {one.label.split()[0]: one for one in chart(world.connection, runs, ["gpu_sm_active"]).series}
    assert {label: (one.scope, one.shared) for label, one in found.items()} == {
        "20/1/1": ("device", ((20.0, 60.0),)), "20/1/2": ("device", ((0.0, 40.0),)),
    }  # fmt: skip
    [loss] = chart(world.connection, runs, ["loss"]).series
    assert loss.shared == ()
    [alone] = chart(world.connection, runs[:1], ["gpu_sm_active"], scopes=["instance"]).series
    assert alone.shared == ()
    [by_step] = chart(world.connection, runs[:1], ["gpu_sm_active"], align="step").series
    assert by_step.shared[0] == pytest.approx((20, 60), abs=1)
    assert all(not one.shared for one in chart(world.connection, runs, ["gpu_sm_active"], by="workload").series)


def drawn(world: World, name: str = "lr") -> Scatter:
    runs = select_runs(world.connection, ["20"], every_attempt=True)
    return scatter(world.connection, runs, ["loss"], name)


def add(
    world: World, start: float, position: int, value: str, loss: float, *, attempt: int = 1, failed: bool = False
) -> None:
    run_id = world.run(start, start + 60, position=position, attempt=attempt)
    if failed:
        world.end(run_id, start, start + 60, "failed")
    world.connection.execute(
        "update runs set params = jsonb_build_object('lr', %s::text) where run_id = %s", (value, run_id)
    )
    losses(world, run_id, start, 5, loss)


def test_results_stand_against_a_parameter_over_all_attempts(world: World, start: float) -> None:
    add(world, start, 1, "0.1", 2.0)
    add(world, start + 100, 1, "0.1", 4.0, attempt=2)
    add(world, start + 200, 1, "0.1", 99.0, attempt=3, failed=True)
    add(world, start, 2, "0.001", 1.0)
    add(world, start, 3, "1e-4", 3.0, failed=True)
    found = drawn(world)
    assert [(one.text, one.value, one.low, one.high, one.attempts, one.ended_early) for one in found.points] == [
        ("0.1", 3, 2, 4, 2, False), ("0.001", 1, 1, 1, 1, False), ("1e-4", 3, 3, 3, 1, True),
    ]  # fmt: skip
    assert (found.categories, found.logarithmic) == ((), True)
    add(world, start, 4, "auto", 2.0)
    assert (drawn(world).categories, drawn(world).logarithmic) == (("1e-4", "0.001", "0.1", "auto"), False)
    with pytest.raises(BadRequest, match=r"no parameter 'l' \(did you mean 'lr'\?\)"):
        drawn(world, "l")
    world.connection.execute("update runs set params = '{\"size\": \"4\"}' where status = 'finished' and position <> 2")
    assert drawn(world).left_out == ("20/1/1", "20/1/4")


def test_panels_are_in_the_order_of_numbers(world: World, start: float) -> None:
    for position, value in enumerate(("16", "128", "2"), 1):
        add(world, start, position, value, 1.0)
    without = world.run(start, start + 60, position=4)
    world.connection.execute("update runs set params = '{}' where run_id = %s", (without,))
    found = facets(select_runs(world.connection, ["20"]), "lr")
    assert list(dict.fromkeys(found.values())) == ["lr = 2", "lr = 16", "lr = 128", "without lr"]
    assert in_order(["a10", "a2", "b1", "a2"]) == ["a2", "a10", "b1"]


def test_runs_are_lines_over_their_varied_parameters_and_results(world: World, start: float) -> None:
    for position, (rate, model) in enumerate((("0.1", "a10"), ("1e-4", "a2"), ("0.01", "a2")), 1):
        add(world, start, position, rate, 2.0 * position)
        world.connection.execute(
            "update runs set params = params || %s::jsonb where position = %s",
            (f'{{"model": "{model}", "batch-size": "128"}}', position),
        )
    world.connection.execute('update runs set params = params || \'{"warmup": "5"}\' where position = 2')
    crashed = world.run(start, start + 60, position=4)
    world.end(crashed, start, start + 1, "failed")
    world.connection.execute(
        "update runs set params = (select params from runs where position = 1) where run_id = %s", (crashed,)
    )
    found = parallel(world.connection, select_runs(world.connection, ["20"]), ["loss"])
    assert found.dimensions == (
        Dimension("lr", (), logarithmic=True), Dimension("model", ("a2", "a10")), Dimension("warmup", ("5",)),
    )  # fmt: skip
    assert [(one.label.split()[0], one.params["lr"], one.results.get("loss"), one.ended_early) for one in found.tracks] == [
        ("20/1/1", "0.1", 2, False), ("20/1/2", "1e-4", 4, False), ("20/1/3", "0.01", 6, False), ("20/1/4", "0.1", None, True),
    ]  # fmt: skip
    assert (found.best, found.worst, found.direction) == (0, 2, -1)
    assert len({one.style for one in found.tracks}) == 4
    with pytest.raises(NoData):
        parallel(world.connection, select_runs(world.connection, ["20/1/1"]), ["loss"])
    # Losses are comparable within one program, whatever the names of its rows.
    world.connection.execute("update runs set name = 'other' where position = 2")
    found = parallel(world.connection, select_runs(world.connection, ["20"]), ["loss"])
    assert (found.best, found.worst, found.direction) == (0, 2, -1)
    world.connection.execute("update runs set command = 'other.py' where position = 2")
    found = parallel(world.connection, select_runs(world.connection, ["20"]), ["loss"])
    assert (found.best, found.worst, found.direction) == (0, 2, None)
