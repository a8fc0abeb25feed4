"""Charts of tensors: reductions by position, norms, statistics over tensors, several processes."""

from __future__ import annotations

import time

import psycopg
import pytest

from tests.support.data.trainings import tensor_set, tensor_step
from tests.support.world import World, one, rows

pytestmark = pytest.mark.flavours

CHART = "select name, step, round(elapsed), value from tensor_chart(%s, {}) order by name, time"


@pytest.fixture
def start() -> float:
    return time.time() // 1 - 600


@pytest.fixture
def run(world: World, start: float) -> str:
    """A run with two steps of two gradients and a weight."""
    run_id = world.run(start, start + 100)
    gradients = tensor_set(world.connection, run_id, "gradients", ["a", "b", "c"])
    weights = tensor_set(world.connection, run_id, "weights", ["a"])
    tensor_step(
        world.connection,
        run_id,
        gradients,
        0,
        start + 10,
        norm=5.0,
        l2=[3, 4, None],
        max=[1, 2, None],
        nonfinite=[0, 0, 1],
    )
    tensor_step(world.connection, run_id, gradients, 5, start + 20, norm=1.0, l2=[0.5, 1, 1], max=[9, 8, 7])
    tensor_step(world.connection, run_id, weights, 0, start + 10, l2=[40], nonfinite=[0.5])
    return run_id


def test_a_tensor_has_a_row_for_each_step(world: World, run: str) -> None:
    assert rows(world, CHART.format("'gradients', 'l2', '{b}'"), [run]) == [("b", 0, 10, 4), ("b", 5, 20, 1)]


def test_all_tensors_of_a_collection_and_no_row_without_a_value(world: World, run: str) -> None:
    found = rows(world, CHART.format("'gradients', 'l2'"), [run])
    assert [(name, step, value) for name, step, _, value in found] == [
        ("a", 0, 3), ("a", 5, 0.5), ("b", 0, 4), ("b", 5, 1), ("c", 5, 1),
    ]  # fmt: skip
    assert rows(world, CHART.format("'gradients', 'std'"), [run]) == []


def test_the_norm_of_a_collection(world: World, run: str) -> None:
    assert rows(world, CHART.format("'gradients', 'norm'"), [run]) == [(None, 0, 10, 5), (None, 5, 20, 1)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'gradients', 'l2', null, 'mean'", [3.5, 2.5 / 3]),
        ("'gradients', 'l2', null, 'median'", [3.5, 1]),
        ("'gradients', 'l2', '{a,b}', 'min'", [3, 0.5]),
        ("'gradients', 'max', null, 'max'", [2, 9]),
        ("null, 'nonfinite', null, 'max'", [1]),
    ],
)
def test_a_statistic_over_tensors(world: World, run: str, arguments: str, expected: list[float]) -> None:
    found = rows(world, CHART.format(arguments), [run])
    assert [(name, round(value, 6)) for name, _, _, value in found] == [(None, round(one, 6)) for one in expected]


def test_an_interval_of_time(world: World, run: str, start: float) -> None:
    within = f"'gradients', 'l2', '{{a}}', start => to_timestamp({start + 15}), stop => to_timestamp({start + 30})"
    assert rows(world, CHART.format(within), [run]) == [("a", 5, 20, 0.5)]


def test_the_id_of_the_tracking_server_names_a_run_too(world: World, run: str) -> None:
    mlflow = one(world, "select mlflow_run_id from runs where run_id = %s", run)
    assert {row[0] for row in rows(world, "select run_id from tensor_chart(%s, 'weights', 'l2')", [mlflow])} == {run}


def test_ranks_are_one_curve(world: World, start: float) -> None:
    run_id = world.run(start, start + 100)
    for pid, (norm, low, high, bad) in {7: (2.0, -1, 5, 0.0), 8: (4.0, -3, 1, 0.25)}.items():
        key = tensor_set(world.connection, run_id, "gradients", ["a"], key=f"{pid}-1")
        tensor_step(
            world.connection,
            run_id,
            key,
            3,
            start + pid,
            pid=pid,
            norm=norm,
            l2=[norm],
            min=[low],
            max=[high],
            nonfinite=[bad],
        )
    found = {
        reduction: rows(
            world, f"select step, round(elapsed), value from tensor_chart(%s, 'gradients', '{reduction}')", [run_id]
        )
        for reduction in ("l2", "norm", "min", "max", "nonfinite")
    }
    assert found == {
        "l2": [(3, 7, 3)], "norm": [(3, 7, 3)], "min": [(3, 7, -3)], "max": [(3, 7, 5)], "nonfinite": [(3, 7, 0.25)],
    }  # fmt: skip


def test_models_of_one_process_have_one_norm(world: World, start: float) -> None:
    run_id = world.run(start, start + 100)
    for model, norm in (("generator", 3.0), ("critic", 4.0)):
        key = tensor_set(world.connection, run_id, "gradients", [model], key=model)
        tensor_step(world.connection, run_id, key, 1, start + 1, norm=norm, l2=[norm])
    assert one(world, "select value from tensor_chart(%s, 'gradients', 'norm')", [run_id]) == 5.0


def test_a_repeated_step_has_a_row_for_each_time(world: World, start: float) -> None:
    run_id = world.run(start, start + 100)
    key = tensor_set(world.connection, run_id, "losses", ["loss"])
    for at, loss in enumerate((3.0, 2.0, 1.0)):
        tensor_step(world.connection, run_id, key, 0, start + 10 * at, mean=[loss])
    assert rows(world, "select step, round(elapsed), value from tensor_chart(%s, 'losses', 'mean')", [run_id]) == [
        (0, 0, 3), (0, 10, 2), (0, 20, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'gradients', 'l3'", "reduction is 'l3', but must be one of min, max"),
        ("'gradients', null", "reduction is NULL, but must be one of"),
        ("'gradients', 'l2; drop table bench.runs'", "but must be one of"),
        ("'gradients', 'l2', null, 'sum'", "over is 'sum', but must be mean, median, min or max"),
        ("'gradients', 'norm', '{a}'", "norm is that of a whole collection"),
        ("null, 'l2'", "collection is null, which goes with over alone"),
    ],
)
def test_what_there_is_not(world: World, run: str, arguments: str, message: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=message):
        rows(world, CHART.format(arguments), [run])


def test_collections_name_their_tensors_in_the_order_of_the_model(world: World, start: float) -> None:
    run_id = world.run(start, start + 100)
    key = tensor_set(world.connection, run_id, "gradients", ["layer.10", "layer.2"])
    tensor_set(world.connection, run_id, "empty", ["x"])
    tensor_step(world.connection, run_id, key, 0, start, l2=[1, 2])
    tensor_step(world.connection, run_id, key, 9, start + 9, l2=[1, 2], norm=2.0)
    assert rows(world, "select * from tensor_collections(%s)", [run_id]) == [
        (run_id, "gradients", ["layer.10", "layer.2"], ["l2", "norm"])
    ]


def test_one_tensor_of_many_costs_one_read_of_its_arrays(world: World, start: float) -> None:
    """Ten thousand tensors, a thousand steps: a curve is a matter of their bytes, not of their elements."""
    run_id = world.run(start, start + 100)
    key = tensor_set(world.connection, run_id, "gradients", [f"layer.{at}" for at in range(10_000)])
    world.connection.execute(
        """
        with made as materialized (
            select n, array_agg((n + at)::real order by at) as l2 from generate_series(0, 299) n, generate_series(0, 9999) at group by n)
        insert into bench_internal.tensor_steps (run_id, tensor_set, step, time, l2)
        select %s, %s, n, to_timestamp(%s) + make_interval(secs => n), l2 from made
        """,
        (run_id, key, start),
    )
    took = []
    for _ in range(3):
        began = time.perf_counter()
        found = rows(world, "select value from tensor_chart(%s, 'gradients', 'l2', '{layer.77}')", [run_id])
        took.append(time.perf_counter() - began)
    assert found == [(77.0 + n,) for n in range(300)]
    every = time.perf_counter()
    rows(world, "select max(value) from tensor_chart(%s, 'gradients', 'l2')", [run_id])
    assert min(took) < (time.perf_counter() - every) / 5
