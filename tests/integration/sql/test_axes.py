"""Charts along steps, epochs and phases, and the axis of a run."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from tests.support.data.charts import Axis, assert_same, chart, expected, random_world
from tests.support.world import World

Spans = list[tuple[str, int, float, float | None]]


@pytest.fixture
def start() -> float:
    """The start of a run, on no bucket's boundary."""
    return time.time() // 600 * 600 - 7200 + 7.25


def track(world: World, run: str, kind: str, spans: Spans, start: float = 0.0, pid: int = 1) -> None:
    """Store spans as (name, number, start, end); a phase has no number."""
    store_spans(
        world.connection,
        run,
        [
            SpanRecord(
                f"{kind}{pid}-{at}", None, name, kind, None if kind == "phase" else number, start + begin,
                None if end is None else start + end, pid, "MainThread",
            )
            for at, (name, number, begin, end) in enumerate(spans)
        ],
    )  # fmt: skip


def axis_of(world: World, run: str, align: str, start: float) -> tuple[float, ...] | None:
    """Return the first and last place of a run, and the seconds from `start` at which it was there."""
    row = world.connection.execute(
        "select first, last, extract(epoch from started_at)::float8 - %s, extract(epoch from ended_at)::float8 - %s"
        " from chart_axis(%s, %s)",
        (start, start, run, align),
    ).fetchone()
    return None if row is None else tuple(round(coordinate, 3) for coordinate in row)


def steps(numbers: list[int] | range, begin: float, seconds: float = 1.0, busy: float = 0.75) -> Spans:
    """Return spans of steps, one every `seconds`, which are over after a part of that."""
    return [("step", number, begin + at * seconds, begin + (at + busy) * seconds) for at, number in enumerate(numbers)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_chart_along_steps_equals_a_computation_on_raw_samples(world: World, seed: int) -> None:
    """Two of three runs have steps, of different lengths, with pauses, and samples before and after them."""
    runs, _ = random_world(world, seed)
    dice = random.Random(seed)
    axis = Axis({}, {})
    for run, slow in zip(runs[:2], (0.15, 1.2), strict=True):
        [(begin, end)] = world.connection.execute(
            "select extract(epoch from started_at)::float8, extract(epoch from ended_at)::float8 from runs where run_id = %s",
            (run,),
        ).fetchall()
        at, spans = begin + dice.uniform(0, 20), Spans()
        axis.begins[run] = []
        while at < end - 20:
            axis.begins[run].append(at)
            axis.ends[run] = at + slow * dice.uniform(0.1, 1)
            spans.append(("step", len(spans), at, axis.ends[run]))
            at = axis.ends[run] + slow * dice.choice([0, 0, 0.5, 20])
        track(world, run, "step", spans)
    quantities = ["cpu_usage", "gpu_utilization", "gpu_power"]
    points = 0
    for _ in ("as written", "refreshed"):
        for step in (1, 7, 40, 100):
            options: dict[str, Any] = {"aligned": True, "per_device": dice.random() < 0.5}
            if dice.random() < 0.5:
                options["start"], options["stop"] = 2 * step, 4 * step
            wanted = expected(world, runs, quantities, step, axis=axis, **options)
            assert_same(chart(world, runs, quantities, step, align="step", **options), wanted)
            points += len(wanted)
        world.refresh()
    assert points > 100
    assert axis_of(world, runs[2], "step", 0) is None


@pytest.mark.parametrize(
    ("kind", "spans", "align", "wanted"),
    [
        pytest.param("step", steps(range(10), 5), "step", (0, 10, 5, 14.75), id="numbered from 0"),
        pytest.param("step", steps(range(1, 11), 5), "step", (1, 11, 5, 14.75), id="numbered from 1"),
        pytest.param("step", steps([*range(4)] * 3, 5), "step", (0, 12, 5, 16.75), id="numbered anew in each epoch"),
        pytest.param("step", steps([*range(10), *range(6, 9)], 5), "step", (0, 9, 5, 17.75), id="continued from a checkpoint"),
        pytest.param("epoch", [("e", 0, 5, 9), ("e", 1, 9, None)], "epoch", (0, 1, 5, 9), id="broken off in an epoch"),
        pytest.param("step", [("step", 3, 5, 6)], "step", (3, 4, 5, 6), id="one step"),
        pytest.param("phase", [("load", 0, 1, 5), ("train", 0, 5, 30)], "step", None, id="no steps"),
        pytest.param("phase", [("load", 0, 1, 5), ("train", 0, 5, 30)], "phase:load", (0, 4, 1, 5), id="a phase"),
        pytest.param("phase", [("load", 0, 1, 5), ("train", 0, 5, 30)], "phase:eval", None, id="not this phase"),
        pytest.param("phase", [("load", 0, 1, 5), ("train", 0, 5, 30)], "phase", (0, 25, 5, 30), id="the longest phase"),
        pytest.param("phase", [("train", 0, 5, None)], "phase", (0, 55, 5, 60), id="a phase that the run ended in"),
        pytest.param("phase", [("a", 0, 5, 9), ("b", 0, 9, 20), ("a", 0, 20, 50)], "phase:a", (0, 4, 5, 9), id="the first of many"),
        pytest.param("phase", [("a", 0, 5, 9), ("a", 0, 5.1, 9.2)], "phase:a", (0, 4.2, 5, 9.2), id="a phase of two ranks"),
        pytest.param("step", steps(range(10), 5), "time", (0, 60, 0, 60), id="time"),
    ],
)  # fmt: skip
def test_the_axis_of_a_run(
    world: World, start: float, kind: str, spans: Spans, align: str, wanted: tuple[float, ...] | None
) -> None:
    run = world.run(start, start + 60)
    track(world, run, kind, spans, start)
    assert axis_of(world, run, align, start) == wanted


def test_steps_of_several_ranks_are_one_axis(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    for pid in range(1, 4):
        track(world, run, "step", steps([*range(5)] * 2, 5 + pid / 100), start, pid)
    assert axis_of(world, run, "step", start) == (0, 10, 5.01, 14.78)


def test_the_training_is_the_phase_that_most_steps_are_in(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    phases: Spans = [
        ("load", 0, 0, 30),
        ("warm up", 0, 30, 32),
        ("train", 0, 32, 45),
        ("first half", 0, 33, 44),
        ("eval", 0, 45, 60),
    ]
    track(world, run, "phase", phases, start)
    track(world, run, "step", [*steps(range(2), 30), *steps(range(2, 12), 34), *steps(range(3), 46)], start)
    assert axis_of(world, run, "phase", start) == (0, 13, 32, 45)


def test_without_spans_what_is_logged_is_the_axis(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    logged = [SoftwareMetric("loss", step, start + 5 + step, 1.0) for step in range(20)]
    logged += [SoftwareMetric("accuracy", epoch, start + 15 + 10 * epoch, 0.5) for epoch in range(2)]
    # What is logged without a step counts none, however often that is.
    logged += [SoftwareMetric("memory", 0, start + at / 2, at) for at in range(60)]
    store_software_metrics(world.connection, run, logged)
    assert axis_of(world, run, "step", start) == (1, 20, 5, 24)
    assert axis_of(world, run, "epoch", start) == (1, 20, 5, 24)
    epochs = [SoftwareMetric("epoch", step, start + 5 + step, step // 5) for step in range(20)]
    store_software_metrics(world.connection, run, epochs)
    assert axis_of(world, run, "epoch", start) == (0, 3, 5, 20)


def test_what_is_done_again_counts_where_it_was_done_last(world: World, start: float) -> None:
    """Steps 0 to 9, a second each; then again from step 6 on, which its load shows."""
    run = world.run(start, start + 60)
    track(world, run, "step", steps([*range(10), *range(6, 10)], 5), start)
    times = [start + 5.5 + at for at in range(14)]
    world.write(world.gauge("node_load1", times, [float(at) for at in range(14)]))
    points = chart(world, [run], ["load"], 1, aligned=True, align="step")
    assert [(at, value) for at, *_, value, _, _ in points] == [
        (0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 7), (6, 10), (7, 11), (8, 12), (9, 13)
    ]  # fmt: skip


def test_a_phase_counts_from_its_beginning(world: World, start: float) -> None:
    runs = [world.run(start + at, start + at + 60, position=at + 1) for at in range(2)]
    for at, run in enumerate(runs):
        track(world, run, "phase", [("train", 0, 10 + 3 * at, 40 + 5 * at)], start + at)
    times = [start + 0.5 + at for at in range(70)]
    world.write(world.gauge("node_load1", times, [float(at) for at in range(70)]))
    for align in ("phase", "phase:train"):
        points = chart(world, runs, ["load"], 1, aligned=True, align=align)
        assert [(at, value) for at, label, *_, value, _, _ in points if label == "1/1"] == [
            (at, 10.0 + at) for at in range(30)
        ]
        assert [(at, value) for at, label, *_, value, _, _ in points if label == "1/2"] == [
            (at, 14.0 + at) for at in range(32)
        ]


def test_a_hundred_thousand_steps(world: World, start: float) -> None:
    """Each takes 20 ms; where there are more than can be drawn, points stand for several."""
    run = world.run(start, start + 2100)
    world.connection.execute(
        """
        insert into spans
        select %s, 'a-' || n, null, 'step', 'step', n, to_timestamp(%s + n * 0.02), to_timestamp(%s + n * 0.02 + 0.01), 1, 'main'
        from generate_series(0, 99999) n
        """,
        (run, start + 50, start + 50),
    )
    assert axis_of(world, run, "step", start) == (0, 100_000, 50, 2049.99)
    times = [start + 0.5 + at for at in range(2100)]
    world.write(world.gauge("node_load1", times, [float(at) for at in range(2100)]))
    world.refresh()
    for step in (1, 100, 2000):
        points = chart(world, [run], ["load"], step, aligned=True, align="step")
        assert len(points) >= 40
        for at, *_, value, _, _ in points:
            assert at * 0.02 + 50 == pytest.approx(value, abs=max(step, 2000) * 0.02 + 5)


def test_an_unknown_axis_is_refused(world: World) -> None:
    with pytest.raises(Exception, match="'stepp'"):
        chart(world, ["x"], ["load"], 1, aligned=True, align="stepp")
