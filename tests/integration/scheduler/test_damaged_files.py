"""Files of a run that something has damaged: each costs a message, and no other file."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from hypergauge.core.errors import DatabaseUnavailable
from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.scheduler.profilers.recorded import recorded_calls
from hypergauge.scheduler.tracking.delivery import deliver, deliver_recorded
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from hypergauge.sql.server.session import Session
from tests.support.world import World, rows

NOW = 1_800_000_000.0
END = RunEnd("finished", NOW, NOW + 100, 0, None, 0.0, 0, 0, 0)
SPAN = {"id": "s1", "parent": None, "name": "step", "kind": "step", "step": 1, "start": NOW, "end": NOW + 1, "pid": 1, "thread": "a"}  # fmt: skip
GOOD_STACK = "f (a.py:1) 50\n"


@pytest.fixture
def folder(world: World) -> RunFolder:
    """The folder of an ended run in the database, with a good span."""
    folder = RunFolder(world.folder.parent / "runs" / world.run(NOW, NOW + 100))
    folder.path.mkdir(parents=True)
    folder.spans.write_text(json.dumps(SPAN) + "\n")
    return folder


def _trace(name: bytes = b"gemm", ts: bytes = b"1", dur: bytes = b"2", base: bytes = b"0") -> bytes:
    events = b'{"ph": "X", "cat": "kernel", "name": "good", "ts": 0, "dur": 1},'
    events += b'{"ph": "X", "cat": "kernel", "name": "%s", "ts": %s, "dur": %s}' % (name, ts, dur)
    return gzip.compress(b'{"traceEvents": [%s], "baseTimeNanoseconds": %s}' % (events, base))


def _spans(**fields: object) -> bytes:
    return (json.dumps(SPAN) + "\n" + json.dumps({**SPAN, "id": "s2", **fields}) + "\n").encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("torch_trace.json.gz", _trace(b"caf\xe9")),
        ("torch_trace.json.gz", _trace(rb"\ud800")),
        ("torch_trace.json.gz", _trace(rb"\u0000\u001b[0m")),
        ("torch_trace.json.gz", _trace(b"x" * 1_000_000)),
        ("torch_trace.json.gz", _trace(ts=b"1e300")),
        ("torch_trace.json.gz", _trace(dur=b"NaN")),
        ("torch_trace.json.gz", _trace(base=b"1e300")),
        ("py-spy.txt", b"f (a.py:1) 3\ng (b\xff\0.py:1) 99999999999999999999999\n"),
        ("spans.jsonl", _spans(name="a\0\ud800" + "é" * 9000)),
        ("spans.jsonl", _spans(id=os.urandom(50_000).hex())),
        ("spans.jsonl", _spans(start=1e300)),
        ("spans.jsonl", json.dumps(SPAN).encode() + b'\n{"id": "caf\xe9"\n\xff\xfe'),
        ("tensors.jsonl", b'{"set": "%s", "collection": "c", "names": ["a"], "sizes": [1]}\n' % (b"\xff" * 20_000)),
        ("tensors.jsonl", b'{"problem": "\xff\\u0000\\ud800"}\n'),
    ],
)
def test_a_damaged_value_costs_nothing_else(world: World, folder: RunFolder, name: str, content: bytes) -> None:
    (folder.path / "py-spy.txt").write_text(GOOD_STACK)
    (folder.path / name).write_bytes(content)
    messages: list[str] = []
    with Session(world.database) as session:
        for _ in range(2):
            session(deliver_recorded, folder, messages.append)
        recorded_calls(folder.path.parents[1], folder.run_id, messages.append)
    assert rows(world, "select span_id from spans where span_id = 's1'") == [("s1",)]
    profilers = rows(world, "select profiler, problem from profiles order by profiler")
    assert profilers == [("py-spy", None), *([("torch", None)] if "trace" in name else [])]
    assert not any("not in the database" in message for message in messages), messages


def _no_sqlite(path: Path) -> None:
    path.write_bytes(os.urandom(5000))


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("torch_trace.json.gz", lambda path: path.write_bytes(b"\x1f\x8b\x08\xff" + os.urandom(99)), "compressed data"),
        (
            "torch_trace.json.gz",
            lambda path: path.write_bytes(gzip.compress(b'{"traceEvents": ' + b"[" * 100_000)),
            "nested too deeply",
        ),
        ("py-spy.txt", lambda path: path.write_bytes(b"\xff\xfe\0"), "line 1"),
        ("perf.data", _no_sqlite, "perf"),
        ("nsys.nsys-rep", _no_sqlite, "nsys"),
        ("ncu.ncu-rep", _no_sqlite, "ncu"),
    ],
)
def test_a_report_that_cannot_be_read_is_one_message(
    world: World, folder: RunFolder, name: str, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(folder.path / name)
    messages: list[str] = []
    with Session(world.database) as session:
        assert session(deliver, folder, None, None, END, messages.append)
    assert [message in one and name in one for one in messages] == [True], messages
    assert rows(world, "select problem is null from profiles") == [(False,)]
    assert folder.delivered
    recorded_calls(folder.path.parents[1], folder.run_id, messages.append)


@pytest.mark.parametrize("name", ["spans.jsonl", "tensors.jsonl", "torch_trace.json.gz", "py-spy.txt"])
def test_a_file_that_may_not_be_read_is_one_message(world: World, folder: RunFolder, name: str) -> None:
    (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / name)  # would wait for a writer without end
    messages: list[str] = []
    deliver_recorded(world.connection, folder, messages.append)
    assert messages == []
    (folder.path / name).unlink()
    (folder.path / name).symlink_to("/proc/self/mem")  # a file whose content is an error
    deliver_recorded(world.connection, folder, messages.append)
    assert len(messages) == 1


@pytest.mark.parametrize(
    "metric",
    [
        SoftwareMetric("a\0\ud800", 1, NOW, 1.0),
        SoftwareMetric("a", 2**70, NOW, 1.0),
        SoftwareMetric("a", 1, 1e300, 1.0),
        SoftwareMetric("a", 1, float("nan"), 1.0),
    ],
)
def test_a_logged_value_that_the_database_lacks_costs_no_other(
    world: World, folder: RunFolder, metric: SoftwareMetric
) -> None:
    store_software_metrics(world.connection, folder.run_id, [metric, SoftwareMetric("loss", 1, NOW, 0.5)])
    assert ("loss", 0.5) in rows(world, "select key, value from software_metrics")


def test_too_long_a_key_of_an_index_is_no_outage(world: World) -> None:
    """An operational error by its name, which a session would repeat for a day."""
    with Session(world.database) as session:
        session(lambda connection: connection.execute("create temp table keys (key text primary key)"))
        with pytest.raises(DatabaseUnavailable, match="index row"):
            session(lambda connection: connection.execute("insert into keys values (%s)", (os.urandom(50_000).hex(),)))


def test_the_export_of_nsight_may_be_any_file(tmp_path: Path) -> None:
    from hypergauge.scheduler.profilers.reports.nsight_systems import read_calls
    from hypergauge.scheduler.profilers.reports.stacks import UnreadableReport

    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (x)")
    connection.close()
    with pytest.raises(UnreadableReport):
        read_calls(tmp_path / "other.sqlite")
