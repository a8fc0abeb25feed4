"""Segments of the spool: deletion, kills, damage and failed writes."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypergauge.collector.spool.folder import SpoolUnwritable
from hypergauge.collector.spool.queue import Spool
from tests.support.collector.spool import OpenSpool, drain, record, same, segments


def test_a_segment_is_deleted_when_its_records_are_accepted(open_spool: OpenSpool, tmp_path: Path) -> None:
    spool = open_spool(max_bytes=2_000_000)
    numbers = [spool.append(record(n, samples=1000)) for n in range(30)]
    assert len(segments(tmp_path / "spool")) > 1
    assert spool.size == sum(path.stat().st_size for path in segments(tmp_path / "spool"))
    assert all(same(taken, n, 1000) for n, taken in enumerate(drain(spool))), "each segment defines its series"
    spool.accept(numbers)
    assert len(segments(tmp_path / "spool")) == 1
    assert (spool.depth, spool.dropped_records) == (0, 0)


WRITER = textwrap.dedent("""
    import pathlib, sys
    import numpy as np
    from hypergauge.collector.spool.queue import Spool
    from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
    spool = Spool(pathlib.Path(sys.argv[1]), max_bytes=1 << 24)
    series = {ref: SeriesDefinition(1, "m", "gauge", {"ref": str(ref)}) for ref in range(200)}
    refs, n = np.arange(200, dtype=np.uint32), 0
    while True:
        n += 1
        arrays = np.full(200, float(n)), refs, np.full(200, float(n)), np.ones(200, np.float32)
        print(spool.append(SpoolRecord(*arrays, series)), n, flush=True)
""")


def test_appended_records_survive_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    highest = 0
    chance = random.Random(1)
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.1))
        writer.send_signal(signal.SIGKILL)
        out = (first + writer.stdout.read()).splitlines()
        writer.wait()
        writer.stdout.close()
        appended = [tuple(map(int, line.split())) for line in out if line.count(" ") == 1]
        spool = Spool(folder)
        taken = {one.batch: one for one in drain(spool)}
        assert min(taken) > highest
        for batch, n in appended[:-1]:  # the last line may be incomplete
            assert taken[batch].values.tolist() == [n] * 200
            assert len(taken[batch].series) == 200
        highest = max(taken)
        assert spool.dropped_records == 0
        spool.accept(taken)
        spool.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), truncate=st.booleans())
def test_damage_costs_only_the_damaged_records(
    open_spool: OpenSpool, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, truncate: bool
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "spool"
    spool = open_spool(folder)
    ends, numbers = [0], []
    for n in range(8):
        # Each record has new series, so that definitions precede it.
        numbers.append(spool.append(record(n, samples=5, first_ref=3 * n)))
        ends.append(spool.size)
    spool.close()
    [path] = segments(folder)
    content = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(content) - 1))
    if truncate:
        del content[where:]
        hit = {n for n in range(8) if ends[n + 1] > where}
    else:
        content[where] ^= data.draw(st.integers(1, 255))
        hit = {n for n in range(8) if ends[n] <= where < ends[n + 1]}
    path.write_bytes(content)
    again = open_spool(folder)
    left = {numbers.index(taken.batch): taken for taken in drain(again)}
    assert set(left) >= set(range(8)) - hit
    assert all(same(taken, n, 5, 3 * n) for n, taken in left.items())
    assert again.damaged <= 1 if truncate else again.damaged == 1
    assert again.append(record(9)) > numbers[-1]


def test_damage_of_an_open_segment_is_found_at_the_take(open_spool: OpenSpool, tmp_path: Path) -> None:
    spool = open_spool()
    sizes = []
    numbers = []
    for n in range(3):
        numbers.append(spool.append(record(n)))
        sizes.append(spool.size)
    with segments(tmp_path / "spool")[0].open("r+b") as file:
        file.seek(sizes[0] + 30)
        file.write(b"\xff\xff\xff")
    assert [taken.batch for taken in drain(spool)] == [numbers[0], numbers[2]]
    assert spool.damaged == 1
    spool.accept(numbers)
    assert spool.depth == 0


def test_other_files_in_the_folder_do_no_harm(open_spool: OpenSpool, tmp_path: Path) -> None:
    open_spool().append(record(1))
    (tmp_path / "spool" / f"{5:020}.spool").write_bytes(os.urandom(5000))
    (tmp_path / "spool" / f"{6:020}.spool").write_bytes(b"")
    (tmp_path / "spool" / "notes.txt").write_text("mine")
    spool = open_spool()
    assert (len(drain(spool)), spool.damaged) == (1, 1)


def test_an_incomplete_write_is_removed(open_spool: OpenSpool, tmp_path: Path) -> None:
    spool = open_spool()
    first = spool.append(record(1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (spool.size + 100, before[1]))
    try:
        with pytest.raises(SpoolUnwritable, match="cannot be written: No space left on device"):
            spool.append(record(2, samples=100, first_ref=10))
        with pytest.raises(SpoolUnwritable, match="cannot be written"):
            spool.append(record(2, samples=100, first_ref=10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert segments(tmp_path / "spool")[0].stat().st_size == spool.size
    assert (spool.dropped_records, spool.dropped_samples) == (2, 200)
    last = spool.append(record(3, samples=100, first_ref=10))
    again = open_spool()
    first_taken, last_taken = drain(again)
    assert (first_taken.batch, last_taken.batch, again.damaged) == (first, last, 0)
    assert same(last_taken, 3, 100, 10)


def test_a_full_disk_drops_the_oldest_segment(open_spool: OpenSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool(max_bytes=400_000)
    numbers = [spool.append(record(n, samples=1000)) for n in range(12)]
    room = spool.size
    write = os.write

    def full(descriptor: int, content: bytes) -> int:
        if spool.size + len(content) > room:
            write(descriptor, content[:10])
            raise OSError(28, "No space left on device")
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", full)
    numbers.append(spool.append(record(12, samples=1000)))
    left = [taken.batch for taken in drain(spool)]
    assert left == numbers[-len(left) :]
    assert 0 < spool.dropped_records == 13 - len(left)


def test_accepted_records_make_room_on_a_full_disk(open_spool: OpenSpool, tmp_path: Path) -> None:
    spool = open_spool()
    numbers = [spool.append(record(1))]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (spool.size + 50, before[1]))
    try:
        with pytest.raises(SpoolUnwritable, match="No space left on device"):
            spool.append(record(2))
        spool.accept(taken.batch for taken in drain(spool))
        numbers.append(spool.append(record(3)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    [taken] = drain(spool)
    assert same(taken, 3), "its series are defined again"
    assert taken.batch == numbers[1] > numbers[0]
    assert len(segments(tmp_path / "spool")) == 1
