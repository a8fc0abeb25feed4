"""Damaged reports of profilers: each loses what is damaged, and nothing else."""

from __future__ import annotations

import contextlib
import gzip
import io
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hypergauge.scheduler.profilers.reports.entries import entries
from hypergauge.scheduler.profilers.reports.folded import read_folded
from hypergauge.scheduler.profilers.reports.kineto import read_calls, read_trace
from hypergauge.scheduler.profilers.reports.nsight_compute import read_raw_page
from hypergauge.scheduler.profilers.reports.nsight_systems import read_export
from hypergauge.scheduler.profilers.reports.perf_script import read_printed
from hypergauge.scheduler.profilers.reports.stacks import Phases, UnreadableReport
from tests.support.reports import TRACE

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
