"""Reports of profilers: captured ones, stacks, and reports that are broken."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hypergauge.core.calls import Call
from hypergauge.scheduler.profilers.reports.entries import entries, heaviest
from hypergauge.scheduler.profilers.reports.folded import read_folded
from hypergauge.scheduler.profilers.reports.kineto import read_calls, read_trace
from hypergauge.scheduler.profilers.reports.nsight_compute import read_raw_page
from hypergauge.scheduler.profilers.reports.nsight_systems import read_export
from hypergauge.scheduler.profilers.reports.perf_script import read_printed
from hypergauge.scheduler.profilers.reports.stacks import Phases, Stack, UnreadableReport, recorded
from hypergauge.sql.runs.profiles import ProfileEntry
from tests.support.fakes.profilers import NSYS_EVENTS, NSYS_START

DATA = Path(__file__).parents[2] / "data" / "profiles"
# Of a convolutional network on an H200: PyTorch 2.11 with CUDA 13.0, Nsight Compute 2025.3, py-spy 0.4.3.
TRACE, RAW_PAGE, FOLDED = DATA / "torch_h200.json.gz", DATA / "ncu_h200.csv.gz", DATA / "py_spy.txt"


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


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export of Nsight Systems."""
    path = tmp_path / "nsys.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(NSYS_EVENTS)
        connection.commit()
    return path


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


def test_an_export_may_lack_tables(export: Path) -> None:
    with contextlib.closing(sqlite3.connect(export)) as connection:
        for table in ("NVTX_EVENTS", "OSRT_API", "TARGET_INFO_SESSION_START_TIME"):
            connection.execute(f"drop table {table}")
        connection.commit()
    recording = read_export(export, Phases())
    assert {one.kind for one in recording.stacks} == {"kernel", "memory", "cuda"}
    assert recording.started_at is None


def test_an_export_that_was_cut(export: Path) -> None:
    export.write_bytes(export.read_bytes()[:5000])
    with pytest.raises(UnreadableReport, match="no complete export of Nsight Systems"):
        read_export(export, Phases())


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "no gpu__time_duration.sum"),
        (['"ID","Kernel Name"', '"",""'], "no gpu__time_duration.sum"),
        (['"ID","Kernel Name","gpu__time_duration.sum"', '"","","weeks"'], "unknown unit 'weeks'"),
    ],
)
def test_a_page_without_times(lines: list[str], problem: str) -> None:
    with pytest.raises(UnreadableReport, match=problem):
        read_raw_page(lines)


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


@pytest.mark.parametrize("content", ["", 'process 7:"sh" 3\n'])
def test_a_process_that_waits_has_no_functions(tmp_path: Path, content: str) -> None:
    (tmp_path / "py-spy.txt").write_text(content)
    with pytest.raises(UnreadableReport, match="no Python function was busy"):
        read_folded(tmp_path / "py-spy.txt", 1)


def test_a_line_that_was_cut(tmp_path: Path) -> None:
    (tmp_path / "py-spy.txt").write_text("f (a.py:1) 3\ng (a.p")
    with pytest.raises(UnreadableReport, match="its line 2"):
        read_folded(tmp_path / "py-spy.txt", 1)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (lambda whole: whole[: len(whole) // 2], "compressed data ends early"),
        (lambda _: gzip.compress(b'{"traceEvents": [{"ph": "X", "na'), "no complete trace"),
        (lambda _: gzip.compress(b"[]"), "no complete trace"),
        (lambda _: b"plain text", "compressed data"),
    ],
    ids=["truncated", "truncated inside", "other JSON", "no gzip"],
)
def test_a_trace_that_is_truncated(tmp_path: Path, content: Any, problem: str) -> None:
    path = tmp_path / "torch_trace.json.gz"
    path.write_bytes(content(TRACE.read_bytes()))
    with pytest.raises(UnreadableReport, match=problem):
        read_trace(path, Phases())


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


# Names as programs give them, as bytes of a trace, and as they are shown.
NAMES = [
    (b"caf\xe9", "caf\ufffd"),
    (b"\xff\xfe\x00x", "\ufffd\ufffd x"),
    (rb"\ud800", "\ufffd"),
    (rb"a\udc80\ud83d\ude00b\ud83d", "a\ufffd\U0001f600b\ufffd"),
    (rb"nul\u0000", "nul"),
    (b"tab\tescape\x1b[0m", "tab escape [0m"),
    (rb"C:\windows\x", "C:\\windows\\x"),
    (rb"\\ud800", "\\ud800"),
    (rb"quote\"", 'quote"'),
    (b"x" * 100_000, "x" * 2000),
    (b"lr: NaN", None),
    (b"", "unnamed"),
]


@pytest.mark.parametrize(("raw", "name"), NAMES)
def test_a_damaged_name_is_repaired_and_costs_no_other(tmp_path: Path, raw: bytes, name: str | None) -> None:
    event = b'{"ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": 7, "ts": %d, "dur": 2}'
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents": [' + b", ".join((event % (b"gemm", 0), event % (raw, 5))) + b"]}")
    recording = read_trace(path, Phases())
    found = {one.name: one.total for one in entries(recording.stacks)}
    assert found.pop("gemm") == pytest.approx(2e-6)
    assert recording.skipped == 0
    [(shown, seconds)] = found.items()
    assert seconds == pytest.approx(2e-6)
    assert name is None or shown == name
    assert len(read_calls(path)) == 2


@pytest.mark.parametrize(
    "field",
    [
        *(f'"{name}": {value}' for name in ("ts", "dur") for value in ("NaN", "-Infinity", "nan", '"12"', "1e400", "1e300", "null")),
        *(f'"ts": {value}' for value in ("[]", "{}", "1" + "0" * 5000)),
        '"dur": -5',
        '"missing": 0',
    ],
)  # fmt: skip
def test_a_value_that_is_no_number_costs_its_event_alone(tmp_path: Path, field: str) -> None:
    path = tmp_path / "trace.json"
    events = ['{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 2}']
    rest = [one for one in ('"ts": 5', '"dur": 2') if not field.startswith(one[:4])][: 1 if "missing" in field else 2]
    events.append('{"ph": "X", "cat": "kernel", "name": "damaged", ' + ", ".join([field, *rest]) + "}")
    path.write_text('{"traceEvents": [' + ", ".join(events) + "]}")
    recording = read_trace(path, Phases())
    assert ([one.frames for one in recording.stacks], recording.skipped) == ([("gemm",)], 1)
    assert recording.ended_at == pytest.approx(2e-6)
    assert [one.name for one in read_calls(path)] == ["gemm"]


@pytest.mark.parametrize("base", ["NaN", '"x"', "null", "1e300", "[1]"])
def test_a_trace_with_a_damaged_base_has_no_times(tmp_path: Path, base: str) -> None:
    path = tmp_path / "trace.json"
    event = '{"ph": "X", "cat": "kernel", "name": 5, "ts": 1, "dur": 2}'
    path.write_text(f'{{"traceEvents": [{event}], "baseTimeNanoseconds": {base}}}')
    recording = read_trace(path, Phases())
    assert ([one.frames for one in recording.stacks], recording.started_at) == ([("5",)], None)
    assert read_calls(path) == []


def test_a_damaged_row_of_nsight_systems_costs_no_other(export: Path) -> None:
    before = read_export(export, Phases())
    with contextlib.closing(sqlite3.connect(export)) as connection:
        connection.executescript(  # without its constraints
            """
            create table kernels as select * from CUPTI_ACTIVITY_KIND_KERNEL;
            drop table CUPTI_ACTIVITY_KIND_KERNEL;
            alter table kernels rename to CUPTI_ACTIVITY_KIND_KERNEL;
            """
        )
        row = "(start, end, deviceId, streamId, demangledName)"
        connection.execute("insert into StringIds values (900, cast(x'61ff00' as text)), (901, x'62e9')")
        for values in (
            "1, 2, 0, 7, 900",
            "3, 4, 0, 7, 901",
            "5, null, 0, 7, 900",
            "'x', 6, 0, 7, 900",
            "9e999, 6, 0, 7, 900",
        ):
            connection.execute(f"insert into CUPTI_ACTIVITY_KIND_KERNEL {row} values ({values})")
        connection.commit()
    recording = read_export(export, Phases())
    found = {one.name for one in entries(recording.stacks)} - {one.name for one in entries(before.stacks)}
    assert found == {"a\ufffd", "b\ufffd"}
    assert recording.skipped == 3
    assert recording.started_at is not None


def test_a_damaged_row_of_nsight_compute_costs_no_other() -> None:
    header = ['"ID","Kernel Name","gpu__time_duration.sum"', '"","","ns"']
    rows = ['"0","gemm","1,000"', *(f'"1","gemm","{value}"' for value in ("n/a", "nan", "inf", "-1", "", "1e999"))]
    rows += ['"2"', '"3","' + "x" * 200_000 + '","5"', '"4","two\nlines\u2028\x0c","7"', '"5","gemm","3"']
    recording = read_raw_page(io.StringIO("\n".join([*header, *rows])))
    found = {one.frames[0]: one.seconds for one in recording.stacks}
    assert found == {"gemm": pytest.approx(1.003e-6), "two\nlines\u2028\x0c": pytest.approx(7e-9)}
    assert recording.skipped == 8


def test_a_damaged_line_of_samples_costs_no_other(tmp_path: Path) -> None:
    lines = [
        b"f (a.py:1) 3",
        b"g (b\xff.py:1) 1",
        b"h (two",
        b"lines.py:1) 2",
        b"i (a.py:1) " + b"9" * 5000,
        b"j (c\xc2\x85d.py:1) 1",
    ]
    (tmp_path / "py-spy.txt").write_bytes(b"\n".join(lines) + b"\n")
    recording = read_folded(tmp_path / "py-spy.txt", 1)
    names = [one.frames for one in recording.stacks]
    assert names == [("f (a.py:1)",), ("g (b\ufffd.py:1)",), ("lines.py:1)",), ("j (c\x85d.py:1)",)]
    assert recording.skipped == 2


@pytest.mark.parametrize(
    ("time", "skipped"),
    [("1" + "0" * 400 + ".0", 1), ("123456789012345.0", 1), ("12.5", 0)],
    ids=["infinite", "huge", "valid"],
)
def test_a_damaged_time_of_perf_costs_no_other(time: str, skipped: int) -> None:
    header = "# event : name = cpu-clock, { sample_period, sample_freq } = 49"
    lines = [header, "a 1/1 10.0:", "\t1 f (/a)", "", f"a 1/1 {time}:", "\t1 g (/a)", ""]
    recording = read_printed(lines, Phases())
    assert (len(recording.stacks), recording.skipped) == (2 - skipped, skipped)


def test_perf_without_a_rate_is_no_report() -> None:
    with pytest.raises(UnreadableReport, match="no rate"):
        read_printed(["# { sample_period, sample_freq } = 0", "a 1/1 10.0:", "\t1 f (/a)"], Phases())


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
