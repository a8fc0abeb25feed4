"""Charts of workloads: the mean of the charts of their runs."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from statistics import fmean
from typing import Any

import pytest

from tests.support.data.charts import Point, assert_same, expected, moment_of, random_world
from tests.support.world import World

SCOPES = ("process", "instance", "device", "host")


def workload_ids(world: World) -> dict[int, int]:
    return dict(world.connection.execute("select workload, workload_id from workloads").fetchall())


def workload_chart(
    world: World, workloads: list[int], quantities: list[str], step: float, *, aligned: bool,
    start: float | None = None, stop: float | None = None, scopes: list[str] | None = None, max_series: int = 50,
) -> list[tuple[Any, ...]]:  # fmt: skip
    ids = workload_ids(world)
    return world.connection.execute(
        "select extract(epoch from time)::float8, workload, quantity, scope, value, low, high, runs"
        " from workload_chart(%s, %s, %s, %s, %s, %s, %s, %s)",
        ([ids[one] for one in workloads], quantities, moment_of(start), moment_of(stop), step * 1000, aligned,
         max_series, scopes),
    ).fetchall()  # fmt: skip


def combined(world: World, points: list[Point], step: float, *, aligned: bool, scopes: list[str] | None) -> list[Any]:
    """Return what workloads have, by what each of their runs has."""
    begins: dict[int, float] = dict(
        world.connection.execute(
            "select workload, min(extract(epoch from r.started_at))::float8 from runs r join workloads using (workload_id)"
            " group by 1"
        ).fetchall()
    )
    widest: dict[tuple[int, str], str] = {}
    lines: dict[tuple[Any, ...], list[Point]] = defaultdict(list)
    for point in points:
        when, label, quantity, scope, *_ = point
        workload = int(label.split("/")[0])
        if not aligned:  # the first bin begins with the first of the workload's runs
            when = round(max(when // step * step, begins[workload]), 3)
        lines[when, workload, quantity, scope if scopes else None].append(point)
        widest[workload, quantity] = max(widest.get((workload, quantity), scope), scope, key=SCOPES.index)
    return sorted(
        (
            when, f"20/{workload} train", quantity, scope or widest[workload, quantity],
            fmean(point[4] for point in found), min(point[5] for point in found), max(point[6] for point in found), len(found),
        )
        for (when, workload, quantity, scope), found in lines.items()
    )  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_a_workload_is_the_mean_of_its_runs(world: World, seed: int) -> None:
    runs, start = random_world(world, seed)
    runs.append(world.run(start + 700, start + 1100, workload=2))
    dice = random.Random(seed)
    quantities = ["cpu_usage", "gpu_utilization", "gpu_power"]
    points = 0
    world.refresh()
    for step in (1, 10, 60):
        for aligned in (False, True):
            options: dict[str, Any] = {"aligned": aligned, "scopes": dice.choice([None, ["host", "device"]])}
            if dice.random() < 0.5:
                options["start"] = round(dice.uniform(0, 600) + (0 if aligned else start), 3)
                options["stop"] = options["start"] + 400
            wanted = combined(
                world,
                expected(world, runs, quantities, step, **options),
                step,
                aligned=aligned,
                scopes=options["scopes"],
            )
            found = workload_chart(world, [1, 2], quantities, step, **options)
            assert_same(sorted((round(row[0], 3), *row[1:]) for row in found), wanted)
            points += len(wanted)
    assert points > 500


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 7200 + 7.25


def test_the_latest_attempt_of_each_position_counts_once_it_has_started(world: World, start: float) -> None:
    """Loads of 1 (a first attempt that was repeated), 2 and 4; a third position whose runs all wait."""
    first = world.run(start, start + 60)
    again = world.run(start + 100, start + 160, attempt=2)
    other = world.run(start, start + 60, position=2, name="wide")
    waiting = world.run(start + 200, start + 260, position=3)
    world.connection.execute("delete from run_sets where run_id = %s", (waiting,))
    world.connection.execute("update runs set started_at = null, ended_at = null where run_id = %s", (waiting,))
    for run, begin, value in ((first, start, 1.0), (again, start + 100, 2.0), (other, start, 4.0)):
        times = [begin + 0.5 + at for at in range(60)]
        world.write(world.gauge("bench_process_threads", times, [value] * 60, {"run_id": run}, "process"))
    rows = workload_chart(world, [1], ["threads"], 10, aligned=True)
    assert [row[0] for row in rows] == [0, 10, 20, 30, 40, 50]
    assert {row[1:] for row in rows} == {("20/1 train, wide", "threads", "process", 3.0, 2.0, 4.0, 2)}


def test_a_workload_names_the_widest_scope_of_its_runs(world: World, start: float) -> None:
    own = world.run(start, start + 60)
    world.run(start, start + 60, position=2)
    times = [start + 0.5 + at for at in range(60)]
    world.write(
        world.gauge("bench_process_cpu_seconds_total", times, [1.0] * 60, {"run_id": own}, "process"),
        world.gauge("node_cpu_seconds_total", times, [2.0] * 60, {"cpu": "0", "mode": "user"}),
    )
    [scope] = {row[3] for row in workload_chart(world, [1], ["cpu_usage"], 10, aligned=True)}
    assert scope == "host"


def test_series_are_workloads_times_quantities(world: World, start: float) -> None:
    for workload in (2, 10):
        for position in (1, 2):
            world.run(start, start + 60, workload=workload, position=position)
    times = [start + 0.5 + at for at in range(60)]
    world.write(world.gauge("node_load1", times, [1.0] * 60), world.gauge("node_load5", times, [1.0] * 60))
    quantities = ["load", "load_5m"]

    def lines(max_series: int) -> set[tuple[str, str]]:
        rows = workload_chart(world, [2, 10], quantities, 10, aligned=True, max_series=max_series)
        return {(row[1], row[2]) for row in rows}

    assert lines(3) == {("20/2 train", "load"), ("20/2 train", "load_5m"), ("20/10 train", "load")}
    assert len(lines(4)) == 4
    assert workload_chart(world, [2], ["no_such"], 10, aligned=True) == []


def test_a_name_of_many_is_cut_short(world: World, start: float) -> None:
    for position, name in enumerate(("d", "c", "d", "b", "a"), 1):
        world.run(start, start + 60, position=position, name=name)
    row = world.connection.execute("select workload_label(workload_id) from workloads").fetchone()
    assert row == ("20/1 d and 3 others",)


def test_a_reader_of_own_runs_sees_the_workloads_that_are_theirs_alone(world: World, start: float) -> None:
    for workload, position in ((1, 1), (2, 1), (2, 2)):
        world.run(start, start + 60, workload=workload, position=position)
    world.write(world.gauge("node_load1", [start + 1], [1.0]))
    world.connection.execute("update runs set owner = 'another' where position = 2")
    ids = list(workload_ids(world).values())
    with world.connection.transaction(force_rollback=True):
        world.connection.execute("create role me in role bench_reader_own")
        world.connection.execute("set local session authorization me")
        rows = world.connection.execute(
            "select workload from bench_own.workload_chart(%s, array['load'], null, null, 1000, true, 40)", (ids,)
        ).fetchall()
    assert rows == [("20/1 train",)]
