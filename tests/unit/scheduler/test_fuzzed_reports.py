"""Hostile reports of profilers: each is read within bounds, or unreadable."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.scheduler.profilers.reports import kineto
from hypergauge.scheduler.profilers.reports.entries import entries, heaviest
from hypergauge.scheduler.profilers.reports.folded import read_folded
from hypergauge.scheduler.profilers.reports.nsight_compute import read_raw_page
from hypergauge.scheduler.profilers.reports.nsight_systems import read_calls as read_system_calls
from hypergauge.scheduler.profilers.reports.nsight_systems import read_export
from hypergauge.scheduler.profilers.reports.perf_script import read_printed
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording, UnreadableReport
from hypergauge.sql.ingest.limits import is_time
from tests.support.fakes.profilers import NSYS_EVENTS
from tests.support.fuzzing import damaged_bytes, fuzzed, hostile, mutated, refusal
from tests.support.reports import FOLDED, RAW_PAGE

PHASES = Phases([(0.0, 10.0, "train")])
EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 100.0, "dur": 50.0, "args": {"a": 1}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 110.0, "dur": 20.0},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 120.5, "dur": 30.25},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": "main", "ts": 90, "dur": 200},
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
]
TRACE = {"schemaVersion": 1, "baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": EVENTS}
PRINTED = (
    "# event : name = cycles, { sample_period, sample_freq } = 99, x\n"
    "# reference time: now = 1700000000.000000 (TOD) = 12.500000 (monotonic)\n"
    "python 10/11 13.000001: \n\t7f00 work (/lib/a.so)\n\t7f01 py::f:/x/t.py (/tmp/perf-1.map)\n\n"
    "python 10/11 13.010001: \n\t7f00 work (/lib/a.so (deleted))\n\t7f02 [unknown] ([unknown])\n\n"
)


def check(read: Callable[[], Recording]) -> None:
    """Read a report; all that is stored of it is within the bounds of the database."""
    message = refusal(read, UnreadableReport)
    if message is not None:
        assert len(message) < 1000
        return
    recording = read()
    for time in (recording.started_at, recording.ended_at):
        assert time is None or is_time(time), time
    assert recording.rate is None or 0 < recording.rate < math.inf
    for stack in recording.stacks:
        assert 0 <= stack.seconds < 1e18, stack
    for entry in entries(recording.stacks):
        assert "\0" not in entry.name
        entry.name.encode()
        assert all(0 <= value < 1e18 for value in (entry.total, entry.self, entry.share)), entry
        assert entry.calls is None or 0 <= entry.calls < 2**63
    heaviest(recording.stacks, 5)


def read_trace(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    check(lambda: kineto.read_trace(path, PHASES))
    with contextlib.suppress(UnreadableReport):
        for call in kineto.read_calls(path):
            assert is_time(call.start), call
            assert 0 <= call.seconds < math.inf, call


@fuzzed(200)
@given(mutated(TRACE, 6))
def test_a_trace_with_hostile_values(tmp_path: Path, content: Any) -> None:
    read_trace(tmp_path / "torch.json", json.dumps(content).encode())


@fuzzed(200)
@given(damaged_bytes(json.dumps(TRACE).encode()))
def test_a_damaged_trace(tmp_path: Path, content: bytes) -> None:
    read_trace(tmp_path / "torch.json", content)


@fuzzed(50)
@given(damaged_bytes(gzip.compress(json.dumps(TRACE).encode(), mtime=0)))
def test_a_damaged_compressed_trace(tmp_path: Path, content: bytes) -> None:
    read_trace(tmp_path / "torch.json.gz", content)


@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_a_trace_that_is_nested_too_deeply(tmp_path: Path, bracket: str) -> None:
    deep = bracket * 100_000
    read_trace(tmp_path / "torch.json", deep.encode())
    read_trace(tmp_path / "torch.json", f'{{"traceEvents": [{{"ph": "X", "args": {deep}'.encode())


def test_a_trace_that_would_become_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "_MOST_BYTES", 1 << 20)
    path = tmp_path / "torch.json.gz"
    path.write_bytes(gzip.compress(b" " * (2 << 20)))
    with pytest.raises(UnreadableReport, match="more than 1 MiB"):
        kineto.read_trace(path, PHASES)


@fuzzed(100)
@given(damaged_bytes(FOLDED.read_bytes()[:4000]))
def test_damaged_folded_stacks(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "py-spy.txt"
    path.write_bytes(content)
    check(lambda: read_folded(path, 100))


@fuzzed(100)
@given(damaged_bytes(gzip.decompress(RAW_PAGE.read_bytes())[:6000]))
def test_a_damaged_page(content: bytes) -> None:
    check(lambda: read_raw_page(content.decode(errors="replace").splitlines(keepends=True)))


@fuzzed(100)
@given(damaged_bytes(PRINTED.encode()))
def test_damaged_samples_of_perf(content: bytes) -> None:
    check(lambda: read_printed(content.decode(errors="replace").splitlines(keepends=True), PHASES))


@pytest.mark.parametrize("clock", ["90000000000.0 (TOD) = 0.0", "0.0 (TOD) = 90000000000.0"])
def test_times_of_perf_that_no_calendar_has_are_left_out(clock: str) -> None:
    printed = PRINTED.replace("1700000000.000000 (TOD) = 12.500000", clock).replace("13.0", "90000000001.0")
    recording = read_printed(printed.splitlines(keepends=True), PHASES)
    assert recording.stacks
    assert recording.started_at is None or is_time(recording.started_at)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole export of Nsight Systems."""
    path = tmp_path_factory.mktemp("nsys") / "whole.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(NSYS_EVENTS)
        connection.commit()
    return path


def read_system(path: Path) -> None:
    check(lambda: read_export(path, PHASES))
    with contextlib.suppress(UnreadableReport):
        for call in read_system_calls(path):
            assert is_time(call.start), call


@fuzzed(60)
@given(st.data())
def test_a_damaged_export(tmp_path: Path, whole: Path, data: st.DataObject) -> None:
    path = tmp_path / "nsys.sqlite"
    path.write_bytes(data.draw(damaged_bytes(whole.read_bytes(), 20)))
    read_system(path)


@fuzzed(60)
@given(
    st.sampled_from(["start", "end", "deviceId", "streamId"]),
    hostile.filter(
        lambda one: (
            one is not None
            and one == one
            and not isinstance(one, list | dict)
            and (not isinstance(one, int) or abs(one) < 2**63)
        )
    ),
    st.sampled_from(["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"]),
)
def test_an_export_with_hostile_values(tmp_path: Path, whole: Path, column: str, value: object, table: str) -> None:
    path = tmp_path / "nsys.sqlite"
    shutil.copy(whole, path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        text = value.encode(errors="surrogatepass") if isinstance(value, str) else value
        connection.execute(f"update {table} set {column} = ?", (text,))
        connection.execute("update TARGET_INFO_SESSION_START_TIME set utcEpochNs = ?", (text,))
        connection.commit()
    read_system(path)
