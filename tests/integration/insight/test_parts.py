"""Parts of runs: samples, curves and values are those of a range of time, of a phase, or of both."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight.charts.bars import bars
from hypergauge.insight.charts.chart import Chart, chart
from hypergauge.insight.comparison.comparison import compare
from hypergauge.insight.export.samples_file import write_samples
from hypergauge.insight.export.trace import write_trace
from hypergauge.insight.part import Part
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.runs.selection import RunInfo, select_runs
from tests.support.world import World

pytestmark = pytest.mark.flavours

CPU = "bench_process_cpu_seconds_total"
# Phases of a run, by second. The cores that it uses tell its phase.
PHASES = (("load", 0, 10), ("train", 10, 30), ("eval", 30, 40), ("train", 40, 60), ("eval", 60, 70))
CORES = {"load": 1.0, "train": 8.0, "eval": 2.0}


@pytest.fixture
def start() -> float:
    return time.time() // 600 * 600 - 7200 + 7.25


def cores(second: float, times: int = 1) -> float:
    """Return the cores in the second before a time."""
    return next(CORES[name] for name, begin, end in PHASES if begin * times < second <= end * times)


def training(world: World, start: float, *, times: int = 1, position: int = 1, phases: bool = True) -> str:
    """Run all phases, each `times` as long, with a sample of the cores and a loss each second."""
    seconds = 70 * times
    run = world.run(start, start + seconds, position=position)
    spans = [
        SpanRecord(f"{begin}", None, name, "phase", None, start + begin * times, start + end * times, 1, "main")
        for name, begin, end in PHASES
    ]
    steps = [
        SpanRecord(f"s{at}", None, "step", "step", at, start + at * times, start + (at + 1) * times, 1, "main")
        for at in range(70)
    ]
    store_spans(world.connection, run, [*(spans if phases else ()), *steps])
    logged = [SoftwareMetric("loss", at, start + at + 0.5, 100.0 - at) for at in range(seconds)]
    store_software_metrics(world.connection, run, logged)
    # In the middle of a second, so that no sample is on the bound of a phase.
    samples = [at + 0.5 for at in range(seconds)]
    world.write(
        world.gauge(
            CPU, [start + at for at in samples], [cores(at, times) for at in samples], {"run_id": run}, "process"
        )
    )
    return run


def drawn(world: World, part: Part, metric: str = "cpu_usage", **options: object) -> Chart:
    return chart(world.connection, select_runs(world.connection, ["20"]), [metric], part=part, **options)  # type: ignore[arg-type]


def infos(world: World) -> Sequence[RunInfo]:
    return select_runs(world.connection, ["20"])


@pytest.mark.parametrize(
    ("part", "seconds", "levels"),
    [
        (Part(phase="train"), [*range(10, 30), *range(40, 60)], {8.0}),
        (Part(phase="eval"), [*range(30, 40), *range(60, 70)], {2.0}),
        (Part(35, phase="eval"), [*range(35, 40), *range(60, 70)], {2.0}),
        (Part(None, 20), [*range(20)], {1.0, 8.0}),
        (Part(30, 40), [*range(30, 40)], {2.0}),
        (Part(55), [*range(55, 70)], {8.0, 2.0}),
        (Part(55, 7200), [*range(55, 70)], {8.0, 2.0}),  # to the end of the run
    ],
)
def test_a_curve_has_the_samples_of_its_part_alone(
    world: World, start: float, part: Part, seconds: list[int], levels: set[float]
) -> None:
    training(world, start)
    [series] = drawn(world, part).series
    assert series.x.tolist() == seconds
    assert set(series.value) == set(series.low) == set(series.high) == levels
    [loss] = drawn(world, part, "loss").series
    assert loss.x.tolist() == pytest.approx([at + 0.5 for at in seconds])


def test_an_hour_is_drawn_from_aggregates_within_the_phases(world: World, start: float) -> None:
    """A bucket counts where its middle lies in the phase."""
    training(world, start // 600 * 600, times=60)
    world.refresh()
    [series] = drawn(world, Part(phase="train"), points=40).series
    assert len(series.x) < 40
    assert all(600 <= at < 1800 or 2400 <= at < 3600 for at in series.x)
    assert set(series.value) == {8.0}


def test_workloads_and_other_axes_are_of_the_part(world: World, start: float) -> None:
    training(world, start)
    training(world, start + 0.25, position=2)
    [series] = drawn(world, Part(phase="eval"), by="workload").series
    assert len(series.runs) == 2
    assert set(series.value) == set(series.low) == set(series.high) == {2.0}
    for line in drawn(world, Part(30, 40), align="step").series:
        assert (line.x[0], line.x[-1]) == (30, 39)
        assert set(line.value) == {2.0}


def test_many_runs_are_read_by_lookups_within_their_parts(world: World, start: float) -> None:
    """Above 40 runs, the chart looks up each series instead of having a branch for it."""
    runs = [world.run(start, start + 30, position=at) for at in range(1, 43)]
    for run in runs:
        store_spans(
            world.connection, run, [SpanRecord("a", None, "eval", "phase", None, start + 10, start + 20, 1, "main")]
        )
    world.write(
        *(
            world.gauge(CPU, [start + at + 0.5 for at in range(30)], [1.0] * 10 + [2.0] * 10 + [1.0] * 10, {"run_id": run}, "process")
            for run in runs
        )
    )  # fmt: skip
    found = drawn(world, Part(phase="eval"), max_series=50)
    assert len(found.series) == 42
    assert {tuple(one.x) for one in found.series} == {tuple(range(10, 20))}
    assert {value for one in found.series for value in one.value} == {2.0}


def test_bars_and_comparisons_are_of_the_part(world: World, start: float) -> None:
    training(world, start)
    found = {
        one.metric: one
        for one in bars(world.connection, infos(world), ["cpu_usage", "loss"], part=Part(phase="train")).bars
    }
    # Of the 40 s, half a second at the end of each span is in a sample of the phase that follows.
    assert found["cpu_usage"].value == pytest.approx((8 * 39 + 2 * 1) / 40)
    assert found["cpu_usage"].high == 8
    assert found["loss"].value == 100 - 59
    [entry] = compare(world.connection, ["20"], part=Part(phase="train")).entries
    assert entry.values["duration_seconds"] == pytest.approx(40)
    assert entry.values["cpu_seconds"] == pytest.approx(8 * 39 + 2 * 1)
    assert entry.coverage == pytest.approx(1)


def test_runs_without_the_part_are_left_out_and_named(world: World, start: float) -> None:
    training(world, start)
    training(world, start, position=2, phases=False)
    found = drawn(world, Part(phase="eval"))
    assert [one.label for one in found.series] == ["20/1/1 train"]
    texts = {one.code: one.text for one in found.notices}
    assert texts["part"] == "Only a part of each run: phase eval."
    assert texts["outside_part"] == "No such part, and so left out: 20/1/2."
    compared = compare(world.connection, ["20"], part=Part(phase="eval"))
    assert [one.label for one in compared.entries] == ["20/1/1"]
    assert compared.window
    assert [one.values for one in compared.window.facts()] == [{"reason": "outside_part"}]


def test_an_exported_file_has_the_samples_of_the_part(world: World, start: float, tmp_path: Path) -> None:
    training(world, start)
    parts = Part(35, 65, "eval").find(world.connection, infos(world))
    written = write_samples(world.connection, infos(world), tmp_path / "a.csv", parts=parts)
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert written == len(rows) == 10
    assert [float(row["elapsed"]) for row in rows] == [at + 0.5 for at in (*range(35, 40), *range(60, 65))]
    between = Part(0.6, 0.9).find(world.connection, infos(world))
    with pytest.raises(NoData, match="no samples in this part"):
        write_samples(world.connection, infos(world), tmp_path / "b.csv", parts=between)
    assert not (tmp_path / "b.csv").exists()


def test_a_trace_has_the_samples_and_spans_of_the_part(world: World, start: float, tmp_path: Path) -> None:
    training(world, start)
    parts = Part(phase="eval").find(world.connection, infos(world))
    write_trace(world.connection, infos(world), tmp_path / "a.json", parts=parts)
    events = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    values = {one["args"]["process"] for one in events if one["ph"] == "C" and one["name"].startswith("cpu_usage")}
    assert values == {2.0}
    steps = [one["args"]["step"] for one in events if one.get("cat") == "step"]
    assert {*range(30, 40), *range(60, 70)} <= set(steps) <= {29, *range(30, 41), *range(59, 70)}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part(phase="trian"), r"the selected runs have no phase 'trian' \(did you mean 'train'\?\)"),
        (Part(120), "--from 2 min is after the end of all selected runs: the longest, 20/1/1, took 70 s"),
        (Part(30, phase="load"), "phase 'load' of the selected runs has no time from 30 s: it lasts from 0 s to 10 s"),
    ],
)
def test_a_part_that_no_run_has_is_refused_with_the_nearest(
    world: World, start: float, part: Part, message: str
) -> None:
    training(world, start)
    with pytest.raises(BadRequest, match=message):
        part.find(world.connection, infos(world))


def test_runs_without_phases_say_how_to_track_them(world: World, start: float) -> None:
    world.run(start, start + 10)
    with pytest.raises(BadRequest, match="have no phases; scripts track them"):
        Part(phase="train").find(world.connection, infos(world))
