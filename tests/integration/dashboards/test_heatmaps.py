"""Heat maps: a measured 0 is a value, and what was not measured is an empty row or cell."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.support import grafana
from tests.support.data.answers import Answer, run_query
from tests.support.world import World

METRIC = "bench_gpu_graphics_active_ratio"


@pytest.fixture
def start() -> float:
    """The whole minute ten minutes ago."""
    return time.time() // 60 * 60 - 600


def heatmap(world: World, board: str, chosen: Mapping[str, grafana.Value], span: grafana.Span) -> Answer:
    """Return the answer to the heat map of a dashboard's hardware, with the rights of dashboards."""
    dashboard = json.loads(Path(f"dashboards/generated/{board}.json").read_text())
    drawn = [
        panel for panel in grafana.panels(dashboard) if panel["type"] == "heatmap" and "Gradients" not in panel["title"]
    ]
    [query] = [
        one
        for one in grafana.queries({**dashboard, "panels": drawn, "annotations": {}}, chosen, span)
        if one.kind == "heatmap"
    ]
    with world.connection.transaction():
        world.connection.execute("set local role bench_reader")
        return run_query(world.connection, query)


def query(world: World, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    return world.connection.execute(statement.encode(), parameters).fetchall()


def idle_then_busy(world: World, start: float) -> None:
    """Write a minute of GPU 0: idle, then not measured, then busy."""
    for first, value in ((0, 0.0), (40, 0.5)):
        times = [start + first + second for second in range(1, 21)]
        world.write(world.gauge(METRIC, times, [value] * 20, {"UUID": "GPU-0", "gpu": "0"}, "nvml"))


def test_a_run_that_was_not_measured_has_an_empty_row(world: World, start: float) -> None:
    idle = world.run(start, start + 60, gpu="GPU-0", name="idle")
    unknown = world.run(start, start + 60, position=2, gpu="GPU-1", name="unknown")
    idle_then_busy(world, start)
    world.connection.execute("select summarise(run_id) from runs")
    chosen: dict[str, grafana.Value] = {
        "run": [idle, unknown],
        "metric": ["gpu_utilization"],
        "align": "time",
        "experiment": ["20"],
    }
    found = heatmap(world, "bench-intra", chosen, grafana.Span(0, 60))
    rows = dict.fromkeys(found.column("title"))
    assert list(rows) == ["20/1/1 idle", "20/1/2 unknown"]
    cells = {
        row: [
            (at.second, value)
            for at, title, value in zip(found.column("time"), found.column("title"), found.column("Value"), strict=True)
            if title == row
        ]
        for row in rows
    }
    known = dict(cells["20/1/1 idle"])
    assert {value for second, value in known.items() if second <= 20} == {0.0}
    assert {value for second, value in known.items() if second > 41} == {0.5}
    assert not any(21 < second < 40 and value is not None for second, value in known.items())
    # At a time of the others: a time of its own would make all cells narrow.
    [(second, value)] = cells["20/1/2 unknown"]
    assert (second in known, value) == (True, None)
    nothing = heatmap(world, "bench-intra", {**chosen, "run": [unknown]}, grafana.Span(0, 60))
    assert nothing.column("title")[0].startswith("No data")


def test_a_gpu_of_a_host_that_was_not_measured_has_an_empty_row(world: World, start: float) -> None:
    times = [start + second for second in range(1, 21)]
    world.write(
        # GPU 1 was measured long ago, GPU 2 without its utilization, GPU 3 by its instances.
        world.gauge(METRIC, [start - 7200], [0.5], {"UUID": "GPU-1", "gpu": "1"}, "nvml"),
        world.gauge("bench_gpu_temperature_celsius", times, [40.0] * 20, {"UUID": "GPU-2", "gpu": "2"}, "nvml"),
        world.gauge("bench_gpu_temperature_celsius", times, [40.0] * 20, {"UUID": "GPU-3", "gpu": "3"}, "nvml"),
        world.gauge(
            METRIC,
            times,
            [0.25] * 20,
            {"UUID": "GPU-3", "gpu": "3", "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.10gb"},
            "nvml",
        ),
    )
    world.connection.execute("update targets set last_seen = to_timestamp(%s)", (start + 60,))
    chosen: dict[str, grafana.Value] = {"host": ["node1"]}
    nothing = heatmap(world, "bench-fleet", chosen, grafana.Span(start + 100, start + 160))
    assert set(nothing.column("metric")) == {"No GPU was measured"}
    idle_then_busy(world, start)
    found = heatmap(world, "bench-fleet", chosen, grafana.Span(start, start + 60))
    cells: dict[str, set[float | None]] = {}
    for name, value in zip(found.column("metric"), found.column("value"), strict=True):
        cells.setdefault(name, set()).add(value)
    assert cells == {
        "GPU 0": {0.0, 0.5}, "GPU 1": {None}, "GPU 2": {None}, "GPU 3 · 1g.10gb #7": {0.25}
    }  # fmt: skip
    assert query(world, "select distinct device from fleet_utilization(to_timestamp(%s), to_timestamp(%s), 1000, 2) order by 1", start, start + 60) == [
        ("GPU 0",), ("GPU 3 · 1g.10gb #7",)
    ]  # fmt: skip
    world.connection.execute("update targets set last_seen = to_timestamp(%s)", (start - 7200,))
    gone = heatmap(world, "bench-fleet", chosen, grafana.Span(start, start + 60))
    assert set(gone.column("metric")) == {"GPU 0", "GPU 3 · 1g.10gb #7"}, "a host of the past"


def test_a_gpu_of_a_run_that_was_not_measured_has_an_empty_row(world: World, start: float) -> None:
    run = world.run(start, start + 60, gpu="GPU-0")
    world.run(start, start + 60, position=2, gpu="GPU-1")
    world.connection.execute(
        "insert into placements (run_id, host, gpu_uuid, root_pid, started_at, ended_at, origin)"
        " select %s, host, 'GPU-1', root_pid, started_at, ended_at, origin from placements where run_id = %s",
        (run, run),
    )
    idle_then_busy(world, start)
    found = heatmap(world, "bench-run", {"run": run, "metric": []}, grafana.Span(start, start + 60))
    cells: dict[str, list[float | None]] = {}
    for name, value in zip(found.column("metric"), found.column("value"), strict=True):
        cells.setdefault(name, []).append(value)
    assert set(cells["GPU 0"]) == {0.0, 0.5}
    assert cells["GPU-1"] == [None]
