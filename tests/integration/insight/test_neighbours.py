"""Marks of runs whose neighbours changed meanwhile, in both flavours."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hypergauge.insight.comparison import neighbours
from hypergauge.insight.comparison.comparison import compare
from hypergauge.sql.queries.notices import Fact
from tests.support.world import World


@pytest.fixture
def start() -> float:
    """The start of the runs."""
    return float(time.time() // 1 - 600)


def changed(world: World, *selectors: str, by: str = "run") -> dict[str, list[dict[str, Any]]]:
    found = compare(world.connection, selectors, by=by)
    content = neighbours.marked(found.as_dict(), neighbours.of_comparison(world.connection, found))
    return {run["run"]: run["neighbours_changed"] for run in content["runs"]}


def facts(world: World, *selectors: str, by: str = "run") -> list[Fact]:
    found = compare(world.connection, selectors, by=by)
    return list(neighbours.facts(found, neighbours.of_comparison(world.connection, found)))


def test_an_early_end_is_a_change_for_the_running_ones(world: World, start: float) -> None:
    failed = world.run(start, workload=3, position=1)
    world.run(start, start + 60, workload=3, position=2)
    world.end(failed, start, start + 12.125, "failed")
    assert changed(world, "20/3") == {
        "20/3/1": [],
        "20/3/2": [{"at": 12.125, "run": "20/3/1", "what": "ended", "status": "failed"}],
    }
    change = {"at": 12.125, "run": "20/3/1", "what": "ended", "status": "failed"}
    expected = [Fact("neighbours_changed", ["20/3/2"], {"changes": [change]})]
    assert facts(world, "20/3") == facts(world, "20", by="workload") == expected


def test_what_begins_later_is_a_change_and_an_earlier_attempt_is_named_as_such(world: World, start: float) -> None:
    world.run(start, start + 10, position=1, attempt=1)
    world.run(start + 20, start + 50, position=1, attempt=2)
    world.run(start, start + 60, position=2)
    assert changed(world, "20/1/2")["20/1/2"] == [
        {"at": 10.0, "run": "20/1/1@1", "what": "ended", "status": "finished"},
        {"at": 20.0, "run": "20/1/1", "what": "began"},
        {"at": 50.0, "run": "20/1/1", "what": "ended", "status": "finished"},
    ]


def test_the_first_and_the_last_second_are_not_the_middle(world: World, start: float) -> None:
    world.run(start, start + 60, position=1)
    world.run(start + 0.9, start + 59.1, position=2)
    world.run(start + 1.0, start + 59.0, position=3)
    assert [one["run"] for one in changed(world, "20/1/1")["20/1/1"]] == ["20/1/3", "20/1/3"]


def test_a_gpu_is_shared_with_any_workload_and_a_host_only_within_one(world: World, start: float) -> None:
    world.run(start, start + 60, workload=1, gpu="GPU-1")
    world.run(start + 10, start + 20, experiment=21, workload=1, gpu="GPU-1", gpu_instance=3)
    world.run(start + 10, start + 20, experiment=22, workload=1, gpu="GPU-2")
    world.run(start + 10, start + 20, experiment=23, workload=1)
    assert [one["run"] for one in changed(world, "20/1/1")["20/1/1"]] == ["21/1/1", "21/1/1"]


def test_a_running_run_is_marked_by_now(world: World, start: float) -> None:
    world.run(start, position=1)
    world.run(start, start + 30, position=2)
    change = {"at": 30, "run": "20/1/2", "what": "ended", "status": "finished"}
    assert facts(world, "20/1/1") == [Fact("neighbours_changed", ["20/1/1"], {"changes": [change]})]


def test_of_many_runs_the_first_have_a_fact_of_their_own(world: World, start: float) -> None:
    for position in range(1, 16):
        world.run(start, start + 10 + 2 * position, position=position)
    found = facts(world, "20/1")
    assert [one.code for one in found] == ["neighbours_changed"] * 12 + ["more_neighbours_changed"]
    assert [one["run"] for one in found[-2].values["changes"]] == [f"20/1/{position}" for position in range(1, 13)]
    assert found[-1].runs == ["20/1/14", "20/1/15"]


def test_workloads_in_json_stay_as_they_are(world: World, start: float) -> None:
    world.run(start, start + 60)
    found = compare(world.connection, ["20"], by="workload")
    assert neighbours.marked(found.as_dict(), {}) == found.as_dict()
