"""Highlights in a database: read through charts, stored at a run's end, shown by the command."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

import numpy as np
import pytest
from typer.testing import CliRunner

from hypergauge.cli import app
from hypergauge.core.errors import BenchError, NoData
from hypergauge.insight.highlights import highlight, store
from hypergauge.sql.ingest.software import SpanRecord, store_spans
from hypergauge.sql.runs.highlights import load
from tests.support.data.telemetry import measured
from tests.support.world import World

# What the curves of `tests.support.data.telemetry` are called on the wire.
METRICS = {
    "gpu_utilization": ("bench_gpu_utilization_ratio", "nvml"),
    "gpu_power": ("bench_gpu_power_watts", "nvml"),
    "cpu_usage": ("bench_process_cpu_seconds_total", "process"),
    "memory_used": ("bench_process_proportional_memory_bytes", "process"),
    "disk_read": ("bench_process_read_bytes_total", "process"),
    "disk_write": ("bench_process_written_bytes_total", "process"),
}
PARTS = [("initialization", 12.0), *[("training", 30.0), ("evaluation", 5.0)] * 6, ("checkpoint", 6.0)]


def trained(
    world: World, start: float, parts: Sequence[tuple[str, float]], quantities: Sequence[str] = tuple(METRICS), *,
    simulated: bool = False,
) -> str:  # fmt: skip
    seconds = sum(length for _, length in parts)
    run = world.run(start, start + seconds, gpu="GPU-1", simulated=simulated)
    curves = measured(parts)
    for quantity in quantities:
        metric, exporter = METRICS[quantity]
        labels = {"UUID": "GPU-1"} if exporter == "nvml" else {"run_id": run}
        times = [start + at + 1 for at in range(len(curves[quantity]))]
        world.write(world.gauge(metric, times, list(curves[quantity]), labels, exporter))
    world.refresh()
    return run


@pytest.fixture
def start() -> float:
    """The start of the first run, long enough ago for six hours."""
    return float(time.time() // 3600 * 3600 - 7 * 3600)


def test_highlights_of_a_run_are_detected_and_stored(world: World, start: float) -> None:
    run = trained(world, start, PARTS)
    ends = np.cumsum([0, *(length for _, length in PARTS)]) + start
    names = {"initialization": "load", "training": "fit", "evaluation": "test", "checkpoint": "save"}
    phases = [
        SpanRecord(str(at), None, names[name], "phase", None, ends[at], ends[at + 1], 1, "main")
        for at, (name, _) in enumerate(PARTS)
    ]
    lengths = [0.3] * 40 + [9.0, 0.3, 6.0]
    begun = start + 12 + np.cumsum([0, *lengths])
    steps = [
        SpanRecord(f"s{at}", None, "step", "step", at, begun[at], begun[at + 1], 1, "main")
        for at in range(len(lengths))
    ]
    store_spans(world.connection, run, [*phases, *steps])
    found = store(world.connection, run)
    lines = [(one.kind, (one.started_at.timestamp() - start), one.text) for one in found]
    assert [kind for kind, _, _ in lines] == ["initialization", "repetition", "outlier", "checkpoint"]
    assert [at for _, at, _ in lines] == pytest.approx([0, 12, 24, 222], abs=2)
    assert lines[0][2].startswith("initialization (load): GPU at 2%, disk reads ")
    assert lines[1][2].startswith("6 times: 30 s of training (fit) (GPU at 9")
    assert "5 s of evaluation (test) (GPU at 5" in lines[1][2]
    assert lines[2][2] == "2 steps were slow: step 40 9 s, usually 0.3 s"
    assert lines[3][2].startswith("checkpoint (save): GPU at ")
    assert load(world.connection, [run]) == {run: found}
    assert store(world.connection, run) == found
    assert load(world.connection, [run]) == {run: found}
    assert highlight(world.connection, run) == found
    world.connection.execute("delete from runs where run_id = %s", (run,))
    assert load(world.connection, [run]) == {}


def test_simulated_power_is_not_reported(world: World, start: float) -> None:
    run = trained(world, start, PARTS, simulated=True)
    assert all("power" not in one.text for one in highlight(world.connection, run))


def test_an_unmeasured_run_has_no_highlights(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    with pytest.raises(NoData, match="20/1/1"):
        highlight(world.connection, run)
    assert store(world.connection, run) == []
    assert load(world.connection, [run]) == {}


def test_a_run_of_one_sample_is_too_short(world: World, start: float) -> None:
    run = world.run(start, start + 0.031)
    world.write(world.gauge("bench_process_memory_bytes", [start + 0.01], [1e9]))
    with pytest.raises(NoData, match=r"^20/1/1 is too short for highlights: it took 31 ms$"):
        highlight(world.connection, run)


def test_six_hours_at_one_hertz_are_processed_within_seconds(world: World, start: float) -> None:
    parts = [("initialization", 120.0), *[("training", 1000.0), ("evaluation", 60.0)] * 20, ("checkpoint", 180.0)]
    run = trained(world, start, parts, ("gpu_utilization", "cpu_usage", "disk_write"))
    highlight(world.connection, run)  # what finds changes is imported by now
    began = time.process_time()
    found = highlight(world.connection, run)
    assert time.process_time() - began < 10
    assert [one.kind for one in found] == ["initialization", "repetition", "checkpoint"]
    assert found[1].text.startswith("20 times: 16 min ")
    assert found[1].started_at.timestamp() - start == pytest.approx(120, abs=11)


def test_the_command_prints_and_writes_json(
    world: World, start: float, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(world, start, PARTS)
    world.run(start, start + 60, workload=2)
    monkeypatch.setenv("BENCH_DSN", dsn)
    result = CliRunner().invoke(app, ["highlights", "20/1/1"])
    assert result.exit_code == 0
    assert re.search(r"20/1/1 train: finished, 3:48", result.output)
    assert re.search(r" 0 s +1[123]\.0 s +initialization: GPU at 2%", result.output)
    written = json.loads(CliRunner().invoke(app, ["highlights", "20/1/1", "--json"]).output)
    assert (written["run"], written["run_id"]) == ("20/1/1", run)
    assert [one["kind"] for one in written["highlights"]] == ["initialization", "repetition", "checkpoint"]
    assert list(written["highlights"][0]) == ["started_at", "ended_at", "kind", "text", "weight"]
    for words, refusal in ((["20/2/1"], "20/2/1"), (["20"], "20 names 2 runs"), (["30"], "30")):
        failed = CliRunner().invoke(app, ["highlights", *words])
        assert refusal in str(failed.exception)
        assert isinstance(failed.exception, BenchError)
