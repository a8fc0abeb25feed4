"""View files, and the part of them that a database still has."""

from __future__ import annotations

import time

import pytest

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight.charts.view import View, ViewChart
from hypergauge.sql.runs.selection import select_runs
from tests.support.world import World


@pytest.fixture
def run_ids(world: World) -> list[str]:
    """Three runs of one workload, from its first position on."""
    start = time.time() - 600
    return [world.run(start, start + 60, position=position) for position in (1, 2, 3)]


def test_ids_are_as_short_as_they_can_be(world: World, run_ids: list[str]) -> None:
    first, second, third = run_ids
    taken = first[:15] + ("0" if first[15] != "0" else "1") + "0" * 16
    world.connection.execute("update runs set mlflow_run_id = %s where run_id = %s", (taken, second))
    chart = ViewChart.of(world.connection, select_runs(world.connection, ["20"]), ["cpu_usage"], by="workload")
    assert chart == ViewChart((first[:16], second[:12], third[:12]), ("cpu_usage",), by="workload")
    assert View((chart,)).find(world.connection).view.charts[0].runs == (first, second, third)
    with pytest.raises(BadRequest, match=f"{first[:15]} is the beginning of several runs' ids"):
        View((ViewChart((first[:15],), ("cpu_usage",)),)).find(world.connection)


def test_deleted_runs_are_named(world: World, run_ids: list[str]) -> None:
    first, second, third = run_ids
    [mlflow_id] = [run.mlflow_run_id for run in select_runs(world.connection, ["20/1/3"])]
    assert mlflow_id is not None
    lost, alone = ViewChart((second[:12],), ("loss",)), ViewChart((first[:12],), ("loss",), align="step")
    view = View((ViewChart((second[:12], first[:12], mlflow_id, third[:12]), ("loss",)), lost, alone))
    world.connection.execute("delete from runs where run_id = %s", (second,))
    found = view.find(world.connection)
    assert found.view == View((ViewChart((first, third), ("loss",)), ViewChart((first,), ("loss",), align="step")))
    assert {run_id: run.label for run_id, run in found.runs.items()} == {first: "20/1/1", third: "20/1/3"}
    assert found.deleted == (second[:12],)
    with pytest.raises(NoData, match=f"all runs of this view are deleted: {second[:12]}"):
        View((lost,)).find(world.connection)
