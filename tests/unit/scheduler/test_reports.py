"""Reports of profilers: captured ones, and their stacks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hypergauge.core.calls import Call
from hypergauge.scheduler.profilers.reports.entries import entries, heaviest
from hypergauge.scheduler.profilers.reports.folded import read_folded
from hypergauge.scheduler.profilers.reports.kineto import read_trace
from hypergauge.scheduler.profilers.reports.nsight_compute import read_raw_page
from hypergauge.scheduler.profilers.reports.nsight_systems import read_export
from hypergauge.scheduler.profilers.reports.stacks import Phases, Stack, recorded
from hypergauge.sql.runs.profiles import ProfileEntry
from tests.support.fakes.profilers import NSYS_START
from tests.support.reports import FOLDED, RAW_PAGE, TRACE


def _by_name(stacks: Iterable[Stack], kind: str) -> dict[str, ProfileEntry]:
    return {one.name: one for one in entries(stacks) if one.kind == kind}


def _events(category: str) -> list[dict[str, Any]]:
    events = json.loads(gzip.decompress(TRACE.read_bytes()))["traceEvents"]
    return [one for one in events if one["ph"] == "X" and one.get("cat") == category]


def test_a_trace_of_a_gpu_has_all_kinds_of_entries() -> None:
    found = read_trace(TRACE, Phases())
    kernels = _events("kernel")
    by_name = _by_name(found.stacks, "kernel")
    assert sum(one.calls or 0 for one in by_name.values()) == len(kernels) == 147
    assert sum(one.self for one in by_name.values()) == pytest.approx(sum(one["dur"] for one in kernels) / 1e6)
    assert sum(one.share for one in by_name.values()) == pytest.approx(1)
    assert {one.kind for one in found.stacks} == {"kernel", "memory", "operator", "cuda", "range"}
    assert found.rate is None


def test_an_operator_has_the_time_of_those_that_it_calls_in_its_total_only() -> None:
    by_name = _by_name(read_trace(TRACE, Phases()).stacks, "operator")
    whole = [one for one in _events("cpu_op") if one["name"] == "aten::conv2d"]
    outer, inner = by_name["aten::conv2d"], by_name["aten::convolution"]
    assert outer.calls == len(whole)
    assert outer.total == pytest.approx(sum(one["dur"] for one in whole) / 1e6)
    assert outer.self == pytest.approx(outer.total - inner.total)


def test_a_trace_knows_its_time_and_its_phases() -> None:
    recording = read_trace(TRACE, Phases())
    base = json.loads(gzip.decompress(TRACE.read_bytes()))["baseTimeNanoseconds"] / 1e9
    events = [one for kind in ("kernel", "cpu_op") for one in _events(kind)]
    assert recording.started_at == pytest.approx(base + min(one["ts"] for one in events) / 1e6, abs=0.01)
    assert recording.ended_at is not None
    middle = base + sorted(one["ts"] for one in events)[len(events) // 2] / 1e6
    phases = Phases([(0, 1e12, "outer"), (middle, 1e12, "inner")])
    found = read_trace(TRACE, phases).stacks
    calls = {
        phase: sum(one.calls or 0 for one in found if one.phase == phase and one.kind in ("kernel", "operator"))
        for phase in ("", "outer", "inner")
    }
    assert calls["outer"] == sum(base + one["ts"] / 1e6 < middle for one in events)
    assert calls["inner"] == sum(base + one["ts"] / 1e6 >= middle for one in events)
    assert calls[""] == 0


def test_kernels_of_nsight_compute() -> None:
    with gzip.open(RAW_PAGE, "rt") as file:
        by_name = _by_name(read_raw_page(file).stacks, "kernel")
    assert sum(one.calls or 0 for one in by_name.values()) == 18
    [gemm] = [
        one for name, one in by_name.items() if "implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize128x32x8" in name
    ]
    assert gemm.self == pytest.approx(16864e-9)


def test_events_of_nsight_systems(export: Path) -> None:
    start = NSYS_START / 1e9
    recording = read_export(export, Phases([(start, start + 1.5, "warm-up"), (start + 1.5, start + 9, "train")]))
    found = {(one.kind, one.name, one.phase): (one.calls, one.total, one.self) for one in entries(recording.stacks)}
    expected = {
        ("kernel", "void gemm<float>(float*)", "warm-up"): (1, 5e-4, 5e-4),
        ("kernel", "void gemm<float>(float*)", "train"): (1, 2.5e-4, 2.5e-4),
        ("memory", "copy, host to device", "warm-up"): (1, 1e-4, 1e-4),
        ("cuda", "cudaLaunchKernel_v7000", "warm-up"): (1, 1e-5, 1e-5),
        ("system", "poll", "warm-up"): (1, 0.1, 0.1),
        ("range", "step", "warm-up"): (1, 3e-3, 1.5e-3),
        ("range", "forward", "warm-up"): (1, 1.5e-3, 1.5e-3),
    }
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key] == pytest.approx(values), key
    assert recording.started_at == pytest.approx(start + 0.1)
    assert recording.ended_at == pytest.approx(start + 2.00025)


def test_samples_of_python_functions() -> None:
    recording = read_folded(FOLDED, 50)
    by_name = _by_name(recording.stacks, "function")
    # It waited for 4 ms of each step. The capture has 250 samples, 123 of them there.
    slow = by_name["slow_augmentation (net.py:6)"]
    assert slow.calls is None
    assert slow.self == pytest.approx(123 / 50)
    assert slow.share == pytest.approx(123 / 214)
    assert recording.rate == 50


@pytest.mark.parametrize(
    ("line", "frames"),
    [
        ('process 7:"python train.py";<module> (train.py:1) 3', ["<module> (train.py:1)"]),
        ('process 7:"sh -c a; b";process 8:"python";f (a.py:1);g (a.py:2) 3', ["f (a.py:1)", "g (a.py:2)"]),
        ('process 7:"sh -c echo "a"; b";process 8:"python";f (a.py:1) 3', ["f (a.py:1)"]),
        ('process 7:"python -c x = 3\nprint(x) 4\n";f (<string>:1) 3', ["f (<string>:1)"]),
        ("f (<frozen importlib._bootstrap>:1) 3", ["f (<frozen importlib._bootstrap>:1)"]),
    ],
)
def test_processes_are_no_functions(tmp_path: Path, line: str, frames: list[str]) -> None:
    (tmp_path / "py-spy.txt").write_text(f"{line}\ng (b.py:7) 1\n")
    assert [list(one.frames) for one in read_folded(tmp_path / "py-spy.txt", 1).stacks] == [frames, ["g (b.py:7)"]]


def test_recursion_counts_once() -> None:
    stacks = [Stack("function", ("f", "g", "f"), "", None, 2.0), Stack("function", ("f",), "", None, 1.0)]
    by_name = _by_name(stacks, "function")
    assert (by_name["f"].total, by_name["f"].self, by_name["f"].share) == (3.0, 3.0, 1.0)
    assert (by_name["g"].total, by_name["g"].self) == (2.0, 0.0)


def test_calls_nest_within_their_thread_alone() -> None:
    def call(name: str, track: str, start: float, seconds: float) -> Call:
        return Call("operator", name, track, start, seconds)

    calls = [
        call("outer", "1", 0, 10),
        call("inner", "1", 2, 3),
        call("inner", "1", 6, 1),
        call("other", "2", 3, 4),
    ]
    by_path = {one.frames: (one.calls, one.seconds) for one in recorded(calls, Phases(), None).stacks}
    assert by_path == {("outer",): (1, 6.0), ("outer", "inner"): (2, 4.0), ("other",): (1, 4.0)}


def test_a_call_that_ends_after_its_caller_takes_no_more_from_it() -> None:
    calls = [Call("operator", "a", "1", 0.0, 4.0), Call("operator", "b", "1", 3.0, 5.0)]
    by_path = {one.frames: one.seconds for one in recorded(calls, Phases(), None).stacks}
    assert by_path == {("a",): 3.0, ("a", "b"): 5.0}


def test_kernels_call_none() -> None:
    calls = [
        Call(kind, name, "GPU 0 stream 7", start, seconds)
        for kind in ("kernel", "memory")
        for name, start, seconds in (("gemm", 0.0, 10.0), ("copy", 9.5, 5.0), ("within", 11.0, 1.0))
    ]
    found = [
        (one.kind, one.name, one.calls, one.self, one.total) for one in entries(recorded(calls, Phases(), None).stacks)
    ]
    expected = [("gemm", 1, 10.0, 10.0), ("copy", 1, 5.0, 5.0), ("within", 1, 1.0, 1.0)]
    assert found == [(kind, *one) for kind in ("kernel", "memory") for one in expected]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::mm, seq = 12, op_id = 314290", "aten::mm"),
        ("aten::mm, op_id = 7, sizes = [[2, 4], [4]], input_op_ids = [(3,0), (5,1)]", "aten::mm, sizes = [[2, 4], [4]]"),
        ("autograd::engine::evaluate_function: MmBackward0, stashed seq = 3", "autograd::engine::evaluate_function: MmBackward0"),
        ("ProfilerStep#12", "ProfilerStep"),
        ("seq = 4", "seq = 4"),
        ("layer 4", "layer 4"),
        ("grid = 4, valid = 1", "grid = 4, valid = 1"),
        ("C#7", "C#7"),
    ],
)  # fmt: skip
def test_a_range_is_named_without_the_ids_of_its_calls(name: str, expected: str) -> None:
    [stack] = recorded([Call("range", name, "1", 0.0, 1.0)], Phases(), None).stacks
    assert stack.frames == (expected,)


def test_the_innermost_phase_counts() -> None:
    phases = Phases([(0, 10, "train"), (4, 6, "checkpoint")])
    assert [phases.at(time) for time in (-1, 1, 5, 7, 10)] == ["", "train", "checkpoint", "train", ""]


def test_the_heaviest_stacks_are_kept_over_all_phases() -> None:
    stacks = [
        Stack("operator", ("a",), "one", 1, 1.0),
        Stack("operator", ("a",), "two", 2, 1.5),
        Stack("operator", ("b",), "", 1, 2.0),
        Stack("operator", ("c",), "", 1, 0.1),
    ]
    assert [(one.frames, one.calls, one.self) for one in heaviest(stacks, 2)] == [(["a"], 3, 2.5), (["b"], 1, 2.0)]


def test_names_are_text_for_the_database() -> None:
    [entry] = entries([Stack("range", ("a\0b\udc80" + "x" * 9000,), "", 1, 1.0)])
    assert entry.name.startswith("ab?x")
    assert len(entry.name) <= 2000
