"""The spool's order and numbers, through crashes, damage and a size limit."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypergauge.collector.spool.folder import SpoolInUse, SpoolUnwritable
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.core.errors import BenchError
from tests.support.disks import fill, small_disk

Opener = Callable[..., Spool]

SERIES = {
    ref: SeriesDefinition(7, f"metric_{ref}", "gauge", {"gpu": str(ref), "name": 'ä"\\\n'}) for ref in range(2000)
}


def record(number: int, samples: int = 3, first_ref: int = 0) -> SpoolRecord:
    return SpoolRecord(
        times=1_700_000_000.125 + number + np.zeros(samples),
        refs=np.arange(first_ref, first_ref + samples, dtype=np.uint32),
        values=np.array([np.nan, *range(1, samples)]) * number,
        dts=np.full(samples, 0.1, np.float32),
        series=SERIES,
    )


def same(taken: SpoolRecord | None, number: int, samples: int = 3, first_ref: int = 0) -> bool:
    wanted = record(number, samples, first_ref)
    return (
        taken is not None
        and all(
            getattr(taken, name).dtype == getattr(wanted, name).dtype
            and np.array_equal(getattr(taken, name), getattr(wanted, name), equal_nan=name == "values")
            for name in ("times", "refs", "values", "dts")
        )
        and all(taken.series[ref] == SERIES[ref] for ref in wanted.refs.tolist())
    )


def drain(spool: Spool) -> list[SpoolRecord]:
    return list(iter(spool.take, None))


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.spool"))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Open the spool of this test; an open one remains as if its process had been killed."""
    spools: list[Spool] = []

    def open_spool(folder: Path = tmp_path / "spool", **options: int) -> Spool:
        if folder.exists():
            crash(spools, folder)
        spools.append(Spool(folder, **options))
        return spools[-1]

    yield open_spool
    for spool in spools:
        spool.close()


def crash(spools: list[Spool], folder: Path) -> None:
    """Restore `folder` to its content before its spool is closed, as after a kill."""
    left = folder.with_name("left")
    shutil.copytree(folder, left)
    while spools:
        spools.pop().close()
    shutil.rmtree(folder)
    left.rename(folder)


def test_records_come_back_in_order_as_they_were(opened: Opener) -> None:
    spool = opened()
    numbers = [spool.append(record(n, samples=n + 1, first_ref=n)) for n in range(1, 20)]
    assert numbers == sorted(set(numbers))
    for n, number in zip(range(1, 20), numbers, strict=True):
        taken = spool.take()
        assert same(taken, n, n + 1, n)
        assert taken is not None
        assert taken.batch == number
    assert spool.take() is None
    assert spool.depth == 19


def test_what_is_given_back_is_taken_again_and_what_is_accepted_is_not(opened: Opener) -> None:
    spool = opened()
    numbers = [spool.append(record(n)) for n in range(5)]
    assert [taken.batch for taken in (spool.take(), spool.take(), spool.take()) if taken] == numbers[:3]
    spool.accept(numbers[:1])
    spool.accept(numbers)  # some of these are not taken; only the taken ones count
    spool.give_back()
    assert [taken.batch for taken in drain(spool)] == numbers[3:]
    spool.give_back()
    spool.give_back()
    assert [taken.batch for taken in drain(spool)] == numbers[3:]
    spool.accept(numbers[3:4])
    spool.accept(numbers[3:4])
    assert spool.depth == 1


def test_what_came_just_now_can_be_taken_before_what_has_piled_up(opened: Opener) -> None:
    before = opened()
    old = [before.append(record(n)) for n in range(5)]
    spool = opened()
    new = [spool.append(record(n)) for n in range(5, 8)]
    turns = [spool.take(live=True), spool.take(), spool.take(live=True), spool.take()]
    assert [one.batch for one in turns if one] == [new[0], old[0], new[1], old[1]]
    assert len({one.era for one in turns if one}) == 2
    spool.accept([new[0], old[1]])
    spool.give_back()
    assert [taken.batch for taken in drain(spool)] == [old[0], *old[2:], *new[1:]]
    assert spool.take(live=True) is None
    assert spool.oldest == old[0], "a crash brings all of that segment again"


def test_it_says_how_far_behind_the_database_is(opened: Opener) -> None:
    spool = opened()
    assert spool.lag == 0
    number = spool.append(record(1))
    assert 0 < spool.lag < 60
    spool.take()
    assert 0 < spool.lag < 60, "what is taken is not written yet"
    assert opened().lag == float("inf"), "what an earlier life left may be of any age"
    again = opened()
    again.take()
    again.accept([number])
    assert again.lag == 0


def test_a_record_without_samples_passes(opened: Opener) -> None:
    spool = opened()
    empty = np.zeros(0)
    spool.append(SpoolRecord(empty, empty.astype(np.uint32), empty, empty.astype(np.float32), {}))
    taken = spool.take()
    assert taken is not None
    assert (len(taken), taken.series) == (0, {})


def test_after_a_crash_everything_unaccepted_is_there(opened: Opener) -> None:
    spool = opened()
    source, numbers = spool.source, [spool.append(record(n)) for n in range(10)]
    spool.take()
    again = opened()
    assert (again.source, again.damaged) == (source, 0)
    assert len(source) == 32
    taken = drain(again)
    assert [one.batch for one in taken] == numbers
    assert all(same(one, n) for n, one in enumerate(taken))
    assert again.append(record(10)) > numbers[-1]


def test_a_ref_means_something_else_after_a_restart(opened: Opener) -> None:
    opened().append(record(1))
    again, other = opened(), SeriesDefinition(8, "other", "counter", {})
    again.append(replace(record(2, 1), series={0: other}))
    first, second = drain(again)
    assert (first.series[0], second.series) == (SERIES[0], {0: other})


@pytest.mark.parametrize("orderly", [True, False])
def test_numbering_never_restarts_even_when_nothing_is_left(opened: Opener, tmp_path: Path, orderly: bool) -> None:
    highest = 0
    for _ in range(5):
        spool = opened()
        for n in range(3):
            number = spool.append(record(n))
            assert number > highest
            highest = number
        spool.accept(taken.batch for taken in drain(spool))
        if orderly:
            spool.close()
            spool.close()
            assert segments(tmp_path / "spool") == []
        else:
            for path in segments(tmp_path / "spool"):
                path.unlink()


def test_segments_are_deleted_when_all_in_them_is_accepted(opened: Opener, tmp_path: Path) -> None:
    spool = opened(max_bytes=2_000_000)
    numbers = [spool.append(record(n, samples=1000)) for n in range(30)]
    assert len(segments(tmp_path / "spool")) > 1
    assert spool.size == sum(path.stat().st_size for path in segments(tmp_path / "spool"))
    assert all(same(taken, n, 1000) for n, taken in enumerate(drain(spool))), "each segment defines its series"
    spool.accept(numbers)
    assert len(segments(tmp_path / "spool")) == 1
    assert (spool.depth, spool.dropped_records) == (0, 0)


def test_at_the_bound_the_oldest_go_first_and_are_counted(opened: Opener, tmp_path: Path) -> None:
    spool = opened(max_bytes=200_000)
    numbers = []
    for n in range(300):
        numbers.append(spool.append(record(n, samples=100)))
        if n == 20:
            assert len(drain(spool)) == 21, "those taken can go as well"
        assert sum(path.stat().st_size for path in segments(tmp_path / "spool")) <= 200_000
    spool.give_back()
    left = [taken.batch for taken in drain(spool)]
    assert left == numbers[-len(left) :]
    assert len(left) >= 40
    assert spool.dropped_records == 279 - len(left), "of those taken it is not known yet"
    assert spool.settle(()) == 0
    assert spool.dropped_records == 300 - len(left)
    assert spool.dropped_samples == 100 * spool.dropped_records
    spool.accept(numbers)
    assert spool.depth == 0


def test_what_the_database_has_is_not_lost_when_it_is_given_up(opened: Opener) -> None:
    spool = opened(max_bytes=200_000)
    numbers = [spool.append(record(n, samples=100)) for n in range(30)]
    spool = opened(max_bytes=200_000)
    assert spool.unsure == numbers[0]
    numbers += [spool.append(record(n, samples=100)) for n in range(30, 300)]
    counted = spool.dropped_records
    assert counted == 270 - spool.depth > 0, "of the first it is not known"
    assert spool.settle(set(numbers[:20])) == 20
    assert spool.dropped_records == counted + 10


def test_what_is_given_up_while_it_is_written_is_lost_only_if_it_was_not(opened: Opener) -> None:
    spool = opened(max_bytes=200_000)
    numbers = [spool.append(record(n, samples=100)) for n in range(20)]
    assert len(drain(spool)) == 20
    numbers += [spool.append(record(n, samples=100)) for n in range(20, 300)]
    gone = spool.dropped_records
    spool.accept(numbers[:10])
    spool.give_back()
    assert spool.settle({numbers[10]}) == 1
    assert spool.dropped_records == gone + 9


def test_what_the_database_has_is_not_taken_again(opened: Opener) -> None:
    spool = opened()
    numbers = [spool.append(record(n)) for n in range(5)]
    assert len(drain(spool)) == 5
    spool.give_back()
    assert spool.unsure == numbers[0]
    assert spool.settle(set(numbers[:3])) == 3
    assert [taken.batch for taken in drain(spool)] == numbers[3:]
    spool.accept(numbers[3:])
    assert (spool.depth, spool.dropped_records) == (0, 0)


def test_a_record_beyond_the_bound_costs_itself_alone(opened: Opener) -> None:
    spool = opened(max_bytes=10_000)
    first = spool.append(record(1))
    with pytest.raises(SpoolUnwritable, match=r"a record of \d+ bytes is too large for it"):
        spool.append(record(2, samples=1000))
    assert (spool.dropped_records, spool.dropped_samples) == (1, 1000)
    last = spool.append(record(3))
    assert [taken.batch for taken in drain(spool)] == [first, last]


def test_a_second_opener_is_refused(opened: Opener, tmp_path: Path) -> None:
    spool = opened()
    with pytest.raises(SpoolInUse, match=rf"another collector \(process {os.getpid()}\) works on the spool"):
        Spool(tmp_path / "spool")
    spool.append(record(1))
    spool.close()
    assert opened().take() is not None


def test_a_folder_that_cannot_be_used_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolUnwritable, match="cannot be used"):
        Spool(tmp_path / "file" / "spool")


@pytest.mark.parametrize("name", ["source", "next"])
def test_numbering_that_cannot_be_read_is_not_begun_anew(opened: Opener, tmp_path: Path, name: str) -> None:
    opened().append(record(1))
    opened().close()
    kept = (tmp_path / "spool" / name).read_text()
    (tmp_path / "spool" / name).write_text("\x00\x00")
    with pytest.raises(BenchError, match=f"{name} is damaged"):
        opened()
    (tmp_path / "spool" / name).write_text(kept)
    assert len(drain(opened())) == 1


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


def test_a_killed_writer_loses_nothing_that_it_had_appended(tmp_path: Path) -> None:
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
        told = [tuple(map(int, line.split())) for line in out if line.count(" ") == 1]
        spool = Spool(folder)
        taken = {one.batch: one for one in drain(spool)}
        assert min(taken) > highest
        for batch, n in told[:-1]:  # the last line may be incomplete
            assert taken[batch].values.tolist() == [n] * 200
            assert len(taken[batch].series) == 200
        highest = max(taken)
        assert spool.dropped_records == 0
        spool.accept(taken)
        spool.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), truncate=st.booleans())
def test_damage_costs_the_records_that_it_hits_and_no_other(
    opened: Opener, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, truncate: bool
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "spool"
    spool = opened(folder)
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
    again = opened(folder)
    left = {numbers.index(taken.batch): taken for taken in drain(again)}
    assert set(left) >= set(range(8)) - hit
    assert all(same(taken, n, 5, 3 * n) for n, taken in left.items())
    assert again.damaged <= 1 if truncate else again.damaged == 1
    assert again.append(record(9)) > numbers[-1]


def test_damage_while_it_is_open_is_found_at_the_take(opened: Opener, tmp_path: Path) -> None:
    spool = opened()
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


def test_other_bytes_in_the_folder_do_no_harm(opened: Opener, tmp_path: Path) -> None:
    opened().append(record(1))
    (tmp_path / "spool" / f"{5:020}.spool").write_bytes(os.urandom(5000))
    (tmp_path / "spool" / f"{6:020}.spool").write_bytes(b"")
    (tmp_path / "spool" / "notes.txt").write_text("mine")
    spool = opened()
    assert (len(drain(spool)), spool.damaged) == (1, 1)


def test_a_write_that_the_disk_cuts_short_leaves_no_trace(opened: Opener, tmp_path: Path) -> None:
    spool = opened()
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
    again = opened()
    first_taken, last_taken = drain(again)
    assert (first_taken.batch, last_taken.batch, again.damaged) == (first, last, 0)
    assert same(last_taken, 3, 100, 10)


def test_a_full_disk_gives_up_the_oldest_segment(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = opened(max_bytes=400_000)
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


def test_a_disk_that_is_full_takes_more_once_what_is_on_it_is_accepted(opened: Opener, tmp_path: Path) -> None:
    spool = opened()
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
    assert same(taken, 3), "it is defined anew"
    assert taken.batch == numbers[1] > numbers[0]
    assert len(segments(tmp_path / "spool")) == 1


@pytest.mark.parametrize("accepted", [True, False], ids=["accepted", "piling up"])
def test_a_disk_that_stays_full_wedges_nothing(opened: Opener, tmp_path: Path, accepted: bool) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        spool = opened(disk / "spool", max_bytes=1 << 30 if accepted else 200_000)
        fill(disk, leave=100_000)
        numbers = []
        for n in range(2500):  # numbers are reserved in thousands, each time in a file
            numbers.append(spool.append(record(n)))
            if accepted:
                spool.accept(taken.batch for taken in drain(spool))
        if accepted:
            assert spool.dropped_records == spool.depth == 0
        else:
            left = [taken.batch for taken in drain(spool)]
            assert left == numbers[-len(left) :]
            assert spool.dropped_records == 2500 - len(left) > 0
        spool.close()


def test_a_spool_is_opened_and_drained_on_a_full_disk(opened: Opener, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        spool = Spool(disk / "spool")
        number = spool.append(record(1))
        spool.close()
        (disk / "spool" / "lock").write_text("")
        fill(disk, leave=0)
        again = Spool(disk / "spool")
        assert [taken.batch for taken in drain(again)] == [number]
        again.accept([number])
        again.close()
