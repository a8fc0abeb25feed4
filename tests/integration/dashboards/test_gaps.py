"""Gaps in the samples: a curve of a dashboard has a point without a value there, at which Grafana ends the line."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.support import grafana
from tests.support.data.answers import run_query
from tests.support.world import World

Curve = dict[float, float | None]


@pytest.fixture
def start() -> float:
    """The whole minute ten minutes ago."""
    return time.time() // 60 * 60 - 600


def curves(
    world: World, board: str, title: str, chosen: Mapping[str, grafana.Value], span: grafana.Span, name: str
) -> dict[str, Curve]:
    """Return the points of a panel's curves by seconds, with the rights of dashboards."""
    dashboard = json.loads(Path(f"dashboards/generated/{board}.json").read_text())
    drawn = [panel for panel in grafana.panels(dashboard) if panel["title"] == title]
    found: dict[str, Curve] = {}
    for query in grafana.queries({**dashboard, "panels": drawn, "annotations": {}}, chosen, span):
        if query.kind != "timeseries":
            continue
        with world.connection.transaction():
            world.connection.execute("set local role bench_reader")
            answer = run_query(world.connection, query)
        for at, curve, value in zip(*map(answer.column, ("time", name, "value")), strict=True):
            found.setdefault(curve, {})[at.timestamp() - span.start] = value
    return found


def breaks(curve: Curve) -> list[float]:
    """Return the times without a value, which are between points with one."""
    values = [curve[at] for at in sorted(curve)]
    assert None not in (values[0], values[-1])
    return [at for at in sorted(curve) if curve[at] is None]


@pytest.mark.parametrize("every", [1, 5])
def test_a_gap_ends_the_line(world: World, start: float, every: int) -> None:
    """Between 20 and 60 s nothing was measured; a single sample that is missing is no gap."""
    run = world.run(start, start + 120, gpu="GPU-0")
    other = world.run(start, start + 120, position=2, gpu="GPU-1")
    times = [start + second for second in range(every, 121, every) if not 20 < second < 60 and second != 80]
    for number in (0, 1):
        gpu = {"UUID": f"GPU-{number}", "gpu": str(number)}
        world.write(
            world.gauge("bench_gpu_utilization_ratio", times, [0.5] * len(times), gpu, "nvml", every),
            world.gauge("bench_gpu_power_watts", times, [70.0] * len(times), gpu, "nvml", every),
            world.gauge("bench_gpu_power_peak_watts", times, [90.0] * len(times), gpu, "nvml", every),
        )
    span = grafana.Span(start, start + 120)
    chosen: dict[str, grafana.Value] = {"run": run, "metric": ["gpu_power"], "software": []}
    of_each = ("Power of each GPU", "Peak power of each GPU")
    for title in ("GPU utilization: run and whole GPU", "Power", *of_each, "$metric"):
        name = "title" if title in of_each else "metric"
        found = curves(world, "bench-run", title, chosen, span, name)
        [curve] = found.values()
        assert breaks(curve) == [pytest.approx(40, abs=every)], title
    fleet = curves(world, "bench-fleet", "Power of GPUs", {"host": ["node1"]}, span, "title")
    assert sorted(len(breaks(curve)) for curve in fleet.values()) == [0, 1], "one point ends all lines of a series"
    chosen = {
        "run": [run, other],
        "metric": ["gpu_power"],
        "align": "time",
        "experiment": ["20"],
        "drawn": "",
        "cut": "",
        "software": [],
    }
    aligned = curves(world, "bench-intra", "$metric over time$drawn$cut", chosen, grafana.Span(0, 120), "title")
    assert [breaks(curve) for curve in aligned.values()] == [[pytest.approx(40, abs=every)]] * 2
    workload: dict[str, grafana.Value] = {
        "workload": ["newest"],
        "experiment": ["20"],
        "metric": ["gpu_power"],
        "align": "time",
        "cut": "",
    }
    whole = curves(
        world,
        "bench-inter",
        "$metric over time: mean of runs, range of samples$cut",
        workload,
        grafana.Span(0, 120),
        "title",
    )
    assert [breaks(curve) for curve in whole.values()] == [[pytest.approx(40, abs=every)]]


def test_gaps_in_times(world: World) -> None:
    def gaps(*seconds: float) -> list[float]:
        statement = "select extract(epoch from gap)::float8 from chart_gaps(array(select to_timestamp(x) from unnest(%s::float8[]) x)) gap"
        return [at for (at,) in world.connection.execute(statement, (list(seconds),))]

    assert gaps() == gaps(1) == gaps(1, 900) == gaps(1, 2, 3, 6, 7, 7) == []
    assert gaps(1, 2, 3, 4, 8, 9, 29, 30, 31) == [6, 19]
    assert gaps(31, 9, 29, 30, 3, 1, 2) == [6, 19]
