"""Traces in the Trace Event Format: spans, samples, neighbours and errors on the workload's time."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypergauge.core.errors import NoData
from hypergauge.insight.export.trace import Calls, Written, write_trace
from hypergauge.scheduler.profilers.recorded import recorded_calls
from hypergauge.scheduler.profilers.reports.kineto import read_calls
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.runs.selection import select_runs
from tests.support.home import COMMAND
from tests.support.reports import TRACE
from tests.support.world import World

# Keys that the format's documentation requires of each phase, besides name, pid and ph.
FIELDS: dict[str, dict[str, type]] = {
    "X": {"cat": str, "tid": int, "ts": int, "dur": int, "args": dict},
    "C": {"ts": int, "args": dict},
    "i": {"tid": int, "ts": int, "s": str},
    "M": {"args": dict},
}
METADATA = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index", "thread_sort_index": "sort_index"}  # fmt: skip


@pytest.fixture
def start() -> float:
    """The start of the workload."""
    return float(time.time() // 1 - 600)


def traced(
    world: World, folder: Path, *selectors: str, metrics: Sequence[str] | None = None, calls: Calls = lambda _: ()
) -> list[dict[str, Any]]:
    """Return the events of a trace, each of which conforms to the format's documentation."""
    path = folder / "trace.json"
    write_trace(world.connection, select_runs(world.connection, selectors), path, metrics, None, calls)
    content = json.loads(path.read_text())
    assert set(content) == {"displayTimeUnit", "traceEvents"}
    assert content["displayTimeUnit"] in ("ms", "ns")
    events: list[dict[str, Any]] = content["traceEvents"]
    for event in events:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        for name, kind in FIELDS[event["ph"]].items():
            assert isinstance(event[name], kind), event
        if event["ph"] == "M":
            assert set(event["args"]) == {METADATA[event["name"]]}
        if event["ph"] == "C":
            assert all(isinstance(value, float | int) for value in event["args"].values())
        if event["ph"] == "i":
            assert event["s"] in "gpt"
    assert nested(events)
    return events


def nested(events: list[dict[str, Any]]) -> bool:
    """Return whether complete events of a track lie within each other or apart, outer ones first."""
    tracks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for track in tracks.values():
        opened: list[int] = []
        for event in sorted(track, key=lambda one: (one["ts"], -one["dur"])):
            while opened and opened[-1] <= event["ts"]:
                opened.pop()
            if opened and opened[-1] < event["ts"] + event["dur"]:
                return False
            opened.append(event["ts"] + event["dur"])
    return True


def spans(events: list[dict[str, Any]]) -> list[tuple[str, str, str, int, int]]:
    """Return group, track, name, begin and length of all complete events but the runs' own."""
    groups, tracks = names(events)
    return [
        (groups[e["pid"]], tracks[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"])
        for e in events
        if e["ph"] == "X" and e["cat"] != "run"
    ]


def names(events: list[dict[str, Any]]) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    groups = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return groups, tracks


def counters(events: list[dict[str, Any]]) -> dict[tuple[str, str], list[tuple[int, dict[str, float]]]]:
    """Return time and values of the counters, by group and name."""
    groups, _ = names(events)
    found: dict[tuple[str, str], list[tuple[int, dict[str, float]]]] = {}
    for event in events:
        if event["ph"] == "C":
            found.setdefault((groups[event["pid"]], event["name"]), []).append((event["ts"], event["args"]))
    return found


def span(start: float, end: float | None, name: str, **more: Any) -> SpanRecord:
    span.number += 1  # type: ignore[attr-defined]
    made = SpanRecord(
        span_id=f"1267-{span.number:x}", parent_id=None, name=name, kind="span", step=None,  # type: ignore[attr-defined]
        started_at=start, ended_at=end, pid=4711, thread="MainThread",
    )  # fmt: skip
    return replace(made, **more)


span.number = 0  # type: ignore[attr-defined]


def test_spans_lie_within_each_other_by_process_and_thread(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60, name="narrow")
    store_spans(
        world.connection,
        run,
        [
            span(start + 1, start + 50, "train", kind="phase"),
            span(start + 1, start + 30.25, "epoch 0", kind="epoch", step=0),
            span(start + 2, start + 2.000001, "step", kind="step", step=7),
            span(start + 2.5, start + 2.5, "nothing"),
            span(start + 5, start + 6, "load", thread="loader"),
            span(start + 7, start + 8, "load", pid=4712),
            span(start + 55, None, "evaluate", kind="phase"),
        ],
    )
    events = traced(world, tmp_path, "20")
    main, other = "20/1/1 narrow: process 4711", "20/1/1 narrow: process 4712"
    assert spans(events) == [
        (main, "MainThread", "train", 1_000_000, 49_000_000),
        (main, "MainThread", "epoch 0", 1_000_000, 29_250_000),
        (main, "MainThread", "step", 2_000_000, 1),
        (main, "MainThread", "nothing", 2_500_000, 0),
        (main, "MainThread", "evaluate", 55_000_000, 5_000_000),
        (main, "loader", "load", 5_000_000, 1_000_000),
        (other, "MainThread", "load", 7_000_000, 1_000_000),
    ]
    about = {event["name"]: (event["cat"], event["args"]) for event in events if event["ph"] == "X"}
    assert about["epoch 0"] == ("epoch", {"step": 0})
    assert about["step"] == ("step", {"step": 7})
    assert about["evaluate"] == ("phase", {"ended": "with the run"})
    assert about["20/1/1 narrow"][1]["status"] == "finished"


def test_spans_of_a_thread_that_overlap_get_tracks_of_their_own(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60)
    requests = [span(start + at, start + at + 2.5, f"request {at}") for at in range(4)]
    store_spans(world.connection, run, requests)
    tracks = [track for _, track, _, _, _ in spans(traced(world, tmp_path, "20"))]
    assert tracks == ["MainThread", "MainThread (2)", "MainThread (3)", "MainThread"]


def test_runs_of_a_workload_stand_side_by_side(world: World, start: float, tmp_path: Path) -> None:
    first = world.run(start, start + 20, position=1, name="a")
    second = world.run(start + 10, start + 30, position=2, name="b")
    for run in (first, second):
        store_spans(world.connection, run, [span(start + 12, start + 13, "same")])
    events = traced(world, tmp_path, "20/1")
    assert [(e["name"], e["ts"], e["dur"]) for e in events if e.get("cat") == "run"] == [
        ("20/1/1 a", 0, 20_000_000),
        ("20/1/2 b", 10_000_000, 20_000_000),
    ]
    assert [(group, at) for group, _, _, at, _ in spans(events)] == [
        ("20/1/1 a: process 4711", 12_000_000),
        ("20/1/2 b: process 4711", 12_000_000),
    ]
    groups, _ = names(events)
    assert len(set(groups.values())) == len(groups) == 4
    instants = [(groups[e["pid"]], e["name"], e["ts"], e["args"]) for e in events if e["ph"] == "i"]
    assert instants == [
        ("20/1/1 a", "20/1/2 began", 10_000_000, {}),
        ("20/1/2 b", "20/1/1 ended", 20_000_000, {"status": "finished"}),
    ]


def test_samples_are_counters_of_the_narrowest_scope(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60, gpu="GPU-1", name="narrow")
    times = [start + at for at in (10.0, 11.0, 12.0)]
    world.write(
        world.gauge("bench_process_threads", times, [4.0, float("nan"), 6.0], {"run_id": run}),
        world.gauge("node_load1", times, [1.0, 1.0, 1.0]),
        world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [250.5, 300.0, 280.0], {"UUID": "GPU-1"}),
        world.gauge("DCGM_FI_DEV_FB_USED", times, [1.0, 2.0, 3.0], {"UUID": "GPU-1"}),
        world.gauge("nvidia_smi_memory_used_bytes", times, [1.0, 1.0, 1.0], {"uuid": "GPU-1"}),
    )
    found = counters(traced(world, tmp_path, "20"))
    group = "20/1/1 narrow"
    assert found[group, "threads (threads)"] == [(9_000_000, {"process": 4.0}), (11_000_000, {"process": 6.0})]
    [power] = [name for _, name in found if name.startswith("gpu_power (watts)")]
    assert found[group, power] == [
        (9_000_000, {"instance": 250.5}),
        (10_000_000, {"instance": 300.0}),
        (11_000_000, {"instance": 280.0}),
    ]
    [memory] = [name for _, name in found if name.startswith("gpu_memory_used (bytes)")]
    assert [args["instance"] for _, args in found[group, memory]] == [2**20, 2**21, 3 * 2**20]
    assert not [name for _, name in found if name.startswith("load")]
    chosen = counters(traced(world, tmp_path, "20", metrics=["load"]))
    assert chosen == {(group, "load (processes)"): [(at, {"host": 1.0}) for at in (9_000_000, 10_000_000, 11_000_000)]}


def test_a_sample_from_before_the_run_counts_from_its_start(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60)
    world.write(world.gauge("bench_process_threads", [start + 0.25], [4.0], {"run_id": run}))
    [[(at, _)]] = counters(traced(world, tmp_path, "20")).values()
    assert at == 0


def test_what_a_script_logs_is_there_too(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60, name="narrow")
    logged = [SoftwareMetric("loss", 1, start + 2, 0.5), SoftwareMetric("loss", 2, start + 3, float("nan"))]
    store_software_metrics(world.connection, run, logged)
    assert counters(traced(world, tmp_path, "20")) == {("20/1/1 narrow", "loss"): [(2_000_000, {"value": 0.5})]}


def test_errors_of_a_gpu_are_marked(world: World, start: float, tmp_path: Path) -> None:
    world.run(start, start + 60, gpu="GPU-1")
    scrapes = [
        (start + at, b'# TYPE bench_gpu_xid_errors_total counter\nbench_gpu_xid_errors_total{UUID="GPU-1",gpu="0",xid="79"} %d\n' % n)
        for at, n in ((5, 0), (6, 0), (7, 1), (8, 1))
    ]  # fmt: skip
    world.write(world.scraped(scrapes, "nvml"))
    marked = [event for event in traced(world, tmp_path, "20") if event["ph"] == "i"]
    assert [(event["name"], event["ts"]) for event in marked] == [("XID 79", 7_000_000)]


def test_what_a_profiler_recorded_stands_beside_the_samples(world: World, tmp_path: Path) -> None:
    calls = read_calls(TRACE)
    first = min(one.start for one in calls)
    begin = float(first // 1 - 2)
    run_id = world.run(begin, begin + 10)
    folder = tmp_path / "home" / "runs" / run_id
    folder.mkdir(parents=True)
    shutil.copy(TRACE, folder / "torch_trace.json.gz")
    said: list[str] = []
    events = traced(world, tmp_path, "20", calls=lambda run: recorded_calls(tmp_path / "home", run.run_id, said.append))
    drawn = [one for one in events if one["ph"] == "X" and one["cat"] != "run"]
    assert len(drawn) == len(calls)
    assert min(one["ts"] for one in drawn) == pytest.approx((first - begin) * 1e6, abs=1)
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    kernels = [one for one in drawn if one["cat"] == "kernel"]
    assert {names[one["pid"], one["tid"]] for one in kernels} == {"GPU 0 stream 7"}
    assert len(kernels) == 147
    # A later report of the same name that is truncated leaves the rest of the trace as it is.
    (folder / "torch_trace.json.gz").write_bytes(TRACE.read_bytes()[:999])
    assert recorded_calls(tmp_path / "home", run_id, said.append) == []
    assert ["ends early" in one for one in said] == [True]


def test_a_name_that_ends_in_gz_is_compressed(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60)
    store_spans(world.connection, run, [span(start, start + 1, "ü")])
    path = tmp_path / "trace.json.gz"
    assert write_trace(world.connection, select_runs(world.connection, ["20"]), path) == Written(1, 1, 0)
    assert "ü" in [event["name"] for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]]
    assert list(tmp_path.glob(".trace*")) == []


def test_a_running_run_lasts_until_now_and_one_that_has_not_begun_is_not_there(
    world: World, start: float, tmp_path: Path
) -> None:
    run = world.run(start)
    [own] = [event for event in traced(world, tmp_path, "20") if event["ph"] == "X"]
    assert own["dur"] > 500e6
    world.connection.execute("update runs set started_at = null, status = 'pending' where run_id = %s", (run,))
    with pytest.raises(NoData, match="none of the selected runs has started"):
        traced(world, tmp_path, "20")


def test_the_command_writes_a_trace_and_reports_what_it_cannot(world: World, start: float, tmp_path: Path) -> None:
    run = world.run(start, start + 60)
    world.write(world.gauge("bench_process_threads", [start + 1], [4.0], {"run_id": run}))
    others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
    environment = {**others, **world.database.settings.environment()}

    def export(*words: str, status: int) -> str:
        done = subprocess.run(
            [*COMMAND, "export", "20", *words],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    assert json.loads(export("--trace", "-o", "a.json", "--json", status=0)) == {
        "file": "a.json", "runs": 1, "spans": 0, "samples": 1, "calls": 0,
    }  # fmt: skip
    assert "a trace is written to a .json or .json.gz file" in export("--trace", "-o", "b.csv", status=2)
    assert "these runs have no samples of 'thread' (did you mean 'threads'?)" in export(
        "--trace", "-o", "b.json", "-m", "thread", status=2
    )
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["a.json"]
