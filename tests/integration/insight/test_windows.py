"""Comparisons over a common part: steps, epochs, a phase, or the first seconds."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.dashboards.terminal.comparison_table import comparison_table
from hypergauge.insight.comparison import neighbours
from hypergauge.insight.comparison.comparison import Comparison, compare
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.queries.notices import Reason
from tests.support.world import World

CPU = "bench_process_cpu_seconds_total"


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 7200 + 7.25


def training(
    world: World, start: float, *, steps: range, pace: float, cores: list[float], load: float = 10.0, **options: Any
) -> str:
    """Run a training: after a phase `load`, steps of `pace` seconds, each with a loss; one sample of its cores a second."""
    seconds = load + len(steps) * pace + 5
    run = world.run(start, start + seconds, **options)
    spans = [
        SpanRecord("load", None, "load", "phase", None, start, start + load, 1, "main"),
        SpanRecord("train", None, "train", "phase", None, start + load, start + seconds - 5, 1, "main"),
    ]
    begins = {step: start + load + at * pace for at, step in enumerate(steps)}
    spans += [
        SpanRecord(f"{step}", "train", "step", "step", step, at, at + 0.9 * pace, 1, "main")
        for step, at in begins.items()
    ]
    store_spans(world.connection, run, spans)
    losses = [SoftwareMetric("loss", step, at + 0.95 * pace, 100.0 - step) for step, at in begins.items()]
    store_software_metrics(world.connection, run, losses)
    times = [start + 1 + at for at in range(int(seconds))]
    values = (cores * int(seconds))[: int(seconds)] if len(cores) == 1 else cores
    world.write(world.gauge(CPU, times[: len(values)], values, {"run_id": run}, "process"))
    return run


def values(found: Comparison, key: str) -> list[float | None]:
    return [entry.values.get(key, entry.software.get(key)) for entry in found.entries]


def test_runs_are_compared_over_the_steps_that_both_have(world: World, start: float) -> None:
    """One does steps 0 to 40 in a second each, the other 10 to 50 in two: 10 to 40 are what both did."""
    quick = training(world, start, steps=range(40), pace=1, cores=[float(at) for at in range(55)])
    slow = training(world, start + 100, steps=range(10, 50), pace=2, cores=[3.0], position=2)
    found = compare(world.connection, ["20/1"], align="step", baseline="20/1/1")
    assert values(found, "duration_seconds") == [pytest.approx(29.9), pytest.approx(59.8)]
    # Of the quick one, from the 20th second to the 50th, less the last tenth of it.
    assert values(found, "cpu_seconds") == [pytest.approx(sum(range(20, 50)) - 4.9), pytest.approx(3 * 59.8)]
    assert values(found, "loss") == [61.0, 61.0]  # of step 39, though the second one went on
    assert found.entries[1].changes["duration_seconds"] == pytest.approx(1)
    content = found.as_dict()
    assert comparison_table(sheet(found)).title == "over steps 10 to 40"
    assert content["window"] == {"align": "step", "first": 10, "last": 40, "phases": (), "left_out": {}}
    for run, begin, seconds in ((content["runs"][0], start + 20, 29.9), (content["runs"][1], start + 110, 59.8)):
        window = run["window"]
        assert (window["first"], window["last"]) == (10, 40)
        assert window["started_at"] == datetime.fromtimestamp(begin, UTC)
        assert window["seconds"] == pytest.approx(seconds)
    assert {quick, slow} == {run["run_id"] for run in content["runs"]}


def test_a_phase_is_compared_from_its_beginning_to_its_end(world: World, start: float) -> None:
    training(world, start, steps=range(20), pace=1, cores=[2.0])
    training(world, start, steps=range(10), pace=3, cores=[2.0], load=30.0, position=2)
    for align, seconds in (("phase", [20, 30]), ("phase:train", [20, 30]), ("phase:load", [10, 30])):
        found = compare(world.connection, ["20/1"], align=align)
        assert values(found, "duration_seconds") == pytest.approx(seconds)
        assert values(found, "cpu_seconds") == pytest.approx([2.0 * one for one in seconds])
        assert values(found, "loss") == ([None, None] if align == "phase:load" else [81.0, 91.0])
        assert found.window is not None
        name = "load" if align == "phase:load" else "train"
        assert found.window.phases == (name,)
        assert comparison_table(sheet(found)).title == f"over the phase {name}"


def test_time_is_compared_as_far_as_the_shortest_goes(world: World, start: float) -> None:
    training(world, start, steps=range(20), pace=1, cores=[2.0])
    training(world, start, steps=range(10), pace=10, cores=[1.0], position=2)
    found = compare(world.connection, ["20/1"], align="time")
    assert values(found, "duration_seconds") == [35, 35]
    assert values(found, "cpu_seconds") == [68, 35]  # the first one's last sample came when it was over
    assert comparison_table(sheet(found)).title == "over the first 35.0 s"
    assert values(found, "loss") == [81.0, 99.0]


def test_a_workload_is_that_part_of_its_runs(world: World, start: float) -> None:
    training(world, start, steps=range(20), pace=1, cores=[2.0])
    training(world, start, steps=range(10), pace=4, cores=[1.0], position=2)
    [found] = compare(world.connection, ["20/1"], by="workload", align="step").entries
    assert found.values["duration_seconds"] == pytest.approx((9.9 + 39.6) / 2)
    assert found.values["makespan_seconds"] == pytest.approx(39.6)
    assert found.values["cpu_seconds"] == pytest.approx(2 * 9.9 + 39.6)


def test_neighbours_count_that_changed_in_that_part(world: World, start: float) -> None:
    """Beside a training of 35 s, one run ends while it loads, another in its middle."""
    training(world, start, steps=range(20), pace=1, cores=[2.0])
    world.run(start, start + 5, position=2)
    world.run(start, start + 20, position=3)
    for align, ends in (("step", [20]), ("phase:load", [5])):
        found = compare(world.connection, ["20/1/1"], align=align)
        [changes] = neighbours.of_comparison(world.connection, found).values()
        assert [change.at for change in changes] == ends


def test_an_attempt_that_failed_halfway_shortens_nothing(world: World, start: float) -> None:
    failed = training(world, start, steps=range(3), pace=1, cores=[2.0])
    world.connection.execute("update runs set status = 'failed' where run_id = %s", (failed,))
    training(world, start + 100, steps=range(20), pace=1, cores=[2.0], attempt=2)
    training(world, start + 200, steps=range(20), pace=2, cores=[2.0], attempt=3)
    found = compare(world.connection, ["20/1/1"], by="row", align="step")
    [row] = found.entries
    assert found.window is not None
    assert (found.window.first, found.window.last) == (0, 20)
    assert row.values["duration_seconds"] == pytest.approx((19.9 + 39.8) / 2)
    assert (row.status, row.counted, len(row.runs)) == ("finished", (2, 3), 3)


def test_a_run_without_such_an_axis_is_left_out(world: World, start: float) -> None:
    training(world, start, steps=range(20), pace=1, cores=[2.0])
    world.run(start, start + 60, position=2)
    found = compare(world.connection, ["20/1"], align="step")
    assert [entry.label for entry in found.entries] == ["20/1/1"]
    assert found.window is not None
    assert found.window.left_out == {"20/1/2": Reason("no_axis", {"align": "step"})}
    with pytest.raises(NoData, match=r"--baseline 20/1/2 .*no steps"):
        compare(world.connection, ["20/1"], align="step", baseline="20/1/2")


@pytest.mark.parametrize(
    ("align", "wrong", "message"),
    [
        ("stepp", BadRequest, r"runs cannot be aligned by 'stepp' \(did you mean 'step'\?\)"),
        ("phase:", BadRequest, "runs cannot be aligned by 'phase:'"),
        ("phase:trian", BadRequest, r"the selected runs have no phase 'trian' \(did you mean 'train'\?\)"),
        ("epoch", NoData, "the runs have no epochs in common: 20/1/2 begins at 101, 20/1/1 ends at 20"),
        ("step", NoData, "the runs have no steps in common: 20/1/2 begins at 100, 20/1/1 ends at 20"),
    ],
)
def test_incomparable_runs_are_reported(
    world: World, start: float, align: str, wrong: type[Exception], message: str
) -> None:
    training(world, start, steps=range(20), pace=1, cores=[2.0])
    training(world, start, steps=range(100, 120), pace=1, cores=[2.0], position=2)
    with pytest.raises(wrong, match=message):
        compare(world.connection, ["20/1"], align=align)


def test_without_raw_samples_there_are_no_parts(world: World, start: float) -> None:
    training(world, start, steps=range(20), pace=1, cores=[2.0])
    kept = training(world, start, steps=range(20), pace=1, cores=[2.0], position=2)
    world.connection.execute("update runs set keep = true where run_id = %s", (kept,))
    world.connection.execute("update retention set raw_cutoff = now()")
    found = compare(world.connection, ["20/1"], align="step")
    assert found.window is not None
    assert found.window.left_out == {"20/1/1": Reason("raw_samples_deleted")}
    with pytest.raises(NoData, match="raw samples"):
        compare(world.connection, ["20/1/1"], align="step")


def test_what_is_logged_counts_to_the_step_before(world: World, start: float) -> None:
    """Steps without a pause in between, reported by spans in one run and by logged metrics in the other."""
    tracked = world.run(start, start + 60)
    steps = [SpanRecord(f"{at}", None, "step", "step", at, start + at, start + at + 1, 1, "main") for at in range(30)]
    store_spans(world.connection, tracked, steps)
    for position, run in ((1, tracked), (2, world.run(start, start + 60, position=2))):
        logged = [SoftwareMetric("loss", at, start + at + 1, 100.0 - at) for at in range(20 * position)]
        store_software_metrics(world.connection, run, logged)
    store_software_metrics(world.connection, tracked, [SoftwareMetric("loss", 29, start + 29.99, 1.0)])
    found = compare(world.connection, ["20/1"], align="step")
    assert found.window is not None
    assert (found.window.first, found.window.last) == (1, 30)
    assert values(found, "loss") == [1.0, 71.0]
