"""`frame` and `summary` in Python: arguments and refusals."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight import frame, summary
from tests.support.world import World

functions = pytest.mark.parametrize("function", [frame, summary])
Function = Callable[..., Any]


@pytest.fixture
def measured(world: World) -> World:
    start = float(time.time() // 600 * 600 - 3600)
    run_id = world.run(start, start + 20)
    times = [start + at for at in range(20)]
    world.write(
        world.gauge("bench_process_threads", times, [4.0] * 20, {"run_id": run_id}),
        world.gauge("my_own_figure", times, [1.0] * 20),
        world.gauge("node_load1", times, [1.0] * 20),
    )
    return world


@functions
def test_a_number_is_an_experiment_and_one_quantity_needs_no_list(measured: World, function: Function) -> None:
    def rows(*selectors: Any, quantities: Any = None) -> Any:
        return function(*selectors, quantities=quantities, settings=measured.database.settings)

    everything = rows("20")
    for selector in (20, np.int64(20), "20/1", "20/1/1"):
        assert rows(selector).equals(everything), selector
    for quantities in ("threads", ["threads"], ("threads",), {"threads"}, iter(["threads"])):
        assert set(rows(20, quantities=quantities)["quantity"]) == {"threads"}
    assert len(rows(20, quantities="my_own_figure")) > 0
    with pytest.raises(NoData, match="gpu_power"):
        rows(20, quantities="gpu_power")


@functions
def test_what_it_cannot_mean_is_refused(measured: World, function: Function) -> None:
    for selector, quantities, why in (
        (20, "thread", r"unknown quantity 'thread' \(did you mean 'threads'\?\)"),
        (20, ["threads", "gpu_powr"], r"unknown quantity 'gpu_powr' \(did you mean 'gpu_power'\?\)"),
        (20, "x", "unknown quantity 'x'; `bench metrics` lists those that were measured"),
        (20, 7, "7 is not a quantity: give a name such as 'cpu_usage', or a list of names"),
        (20, ["threads", None], "None is not a quantity"),
        (21, None, "21 names no run; existing experiments: 20"),
        (-1, None, "'-1' selects nothing: write EXPERIMENT"),
        (20.0, None, "20.0 is not a selector: give '20', '20/1', '20/1/3', a run's id, or the number 20"),
        (True, None, "True is not a selector"),
        (["20"], None, r"\['20'\] is not a selector"),
    ):
        with pytest.raises(BadRequest, match=why):
            function(selector, quantities=quantities, settings=measured.database.settings)


def test_each_row_names_its_run(measured: World) -> None:
    start = float(time.time() // 600 * 600 - 1800)
    for attempt in (1, 2):
        again = measured.run(start + 60 * attempt, start + 60 * attempt + 20, position=2, attempt=attempt)
        times = [start + 60 * attempt + at for at in range(20)]
        measured.write(measured.gauge("bench_process_threads", times, [4.0] * 20, {"run_id": again}))
    for function in (frame, summary):
        for selectors, runs in ((("20",), ["20/1/1", "20/1/2"]), (("20/1/2@1", "20/1/2"), ["20/1/2", "20/1/2@1"])):
            found = function(*selectors, quantities="threads", settings=measured.database.settings)
            assert sorted(found["run"].unique()) == runs
    assert list(summary(20, settings=measured.database.settings).columns[:3]) == ["run_id", "run", "quantity"]
