"""Queue of the spool: order, crashes, settling and the bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hypergauge.collector.spool.folder import SpoolUnwritable
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from tests.support.collector.spool import SERIES, OpenSpool, drain, record, same, segments


def test_records_are_taken_unchanged_and_in_order(open_spool: OpenSpool) -> None:
    spool = open_spool()
    numbers = [spool.append(record(n, samples=n + 1, first_ref=n)) for n in range(1, 20)]
    assert numbers == sorted(set(numbers))
    for n, number in zip(range(1, 20), numbers, strict=True):
        taken = spool.take()
        assert same(taken, n, n + 1, n)
        assert taken is not None
        assert taken.batch == number
    assert spool.take() is None
    assert spool.depth == 19


def test_only_accepted_records_are_not_taken_again(open_spool: OpenSpool) -> None:
    spool = open_spool()
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


def test_live_records_can_be_taken_before_the_backlog(open_spool: OpenSpool) -> None:
    before = open_spool()
    old = [before.append(record(n)) for n in range(5)]
    spool = open_spool()
    new = [spool.append(record(n)) for n in range(5, 8)]
    taken = [spool.take(live=True), spool.take(), spool.take(live=True), spool.take()]
    assert [one.batch for one in taken if one] == [new[0], old[0], new[1], old[1]]
    assert len({one.era for one in taken if one}) == 2
    spool.accept([new[0], old[1]])
    spool.give_back()
    assert [taken.batch for taken in drain(spool)] == [old[0], *old[2:], *new[1:]]
    assert spool.take(live=True) is None
    assert spool.oldest == old[0], "after a crash the whole segment is sent again"


def test_lag_is_the_age_of_the_oldest_unwritten_record(open_spool: OpenSpool) -> None:
    spool = open_spool()
    assert spool.lag == 0
    number = spool.append(record(1))
    assert 0 < spool.lag < 60
    spool.take()
    assert 0 < spool.lag < 60, "taken records are not written yet"
    assert open_spool().lag == float("inf"), "recovered records may be of any age"
    again = open_spool()
    again.take()
    again.accept([number])
    assert again.lag == 0


def test_an_empty_record(open_spool: OpenSpool) -> None:
    spool = open_spool()
    empty = np.zeros(0)
    spool.append(SpoolRecord(empty, empty.astype(np.uint32), empty, empty.astype(np.float32), {}))
    taken = spool.take()
    assert taken is not None
    assert (len(taken), taken.series) == (0, {})


def test_unaccepted_records_survive_a_crash(open_spool: OpenSpool) -> None:
    spool = open_spool()
    source, numbers = spool.source, [spool.append(record(n)) for n in range(10)]
    spool.take()
    again = open_spool()
    assert (again.source, again.damaged) == (source, 0)
    assert len(source) == 32
    taken = drain(again)
    assert [one.batch for one in taken] == numbers
    assert all(same(one, n) for n, one in enumerate(taken))
    assert again.append(record(10)) > numbers[-1]


def test_refs_restart_with_the_collector(open_spool: OpenSpool) -> None:
    open_spool().append(record(1))
    again, other = open_spool(), SeriesDefinition(8, "other", "counter", {})
    again.append(replace(record(2, 1), series={0: other}))
    first, second = drain(again)
    assert (first.series[0], second.series) == (SERIES[0], {0: other})


def test_beyond_the_bound_the_oldest_segment_is_dropped_and_counted(open_spool: OpenSpool, tmp_path: Path) -> None:
    spool = open_spool(max_bytes=200_000)
    numbers = []
    for n in range(300):
        numbers.append(spool.append(record(n, samples=100)))
        if n == 20:
            assert len(drain(spool)) == 21, "taken records can be dropped as well"
        assert sum(path.stat().st_size for path in segments(tmp_path / "spool")) <= 200_000
    spool.give_back()
    left = [taken.batch for taken in drain(spool)]
    assert left == numbers[-len(left) :]
    assert len(left) >= 40
    assert spool.dropped_records == 279 - len(left), "those of taken records are not known yet"
    assert spool.settle(()) == 0
    assert spool.dropped_records == 300 - len(left)
    assert spool.dropped_samples == 100 * spool.dropped_records
    spool.accept(numbers)
    assert spool.depth == 0


def test_dropped_records_in_the_database_are_not_lost(open_spool: OpenSpool) -> None:
    spool = open_spool(max_bytes=200_000)
    numbers = [spool.append(record(n, samples=100)) for n in range(30)]
    spool = open_spool(max_bytes=200_000)
    assert spool.unsure == numbers[0]
    numbers += [spool.append(record(n, samples=100)) for n in range(30, 300)]
    counted = spool.dropped_records
    assert counted == 270 - spool.depth > 0, "those of the first records are not known"
    assert spool.settle(set(numbers[:20])) == 20
    assert spool.dropped_records == counted + 10


def test_records_dropped_during_a_write_are_lost_only_if_it_failed(open_spool: OpenSpool) -> None:
    spool = open_spool(max_bytes=200_000)
    numbers = [spool.append(record(n, samples=100)) for n in range(20)]
    assert len(drain(spool)) == 20
    numbers += [spool.append(record(n, samples=100)) for n in range(20, 300)]
    dropped = spool.dropped_records
    spool.accept(numbers[:10])
    spool.give_back()
    assert spool.settle({numbers[10]}) == 1
    assert spool.dropped_records == dropped + 9


def test_written_records_are_not_taken_again(open_spool: OpenSpool) -> None:
    spool = open_spool()
    numbers = [spool.append(record(n)) for n in range(5)]
    assert len(drain(spool)) == 5
    spool.give_back()
    assert spool.unsure == numbers[0]
    assert spool.settle(set(numbers[:3])) == 3
    assert [taken.batch for taken in drain(spool)] == numbers[3:]
    spool.accept(numbers[3:])
    assert (spool.depth, spool.dropped_records) == (0, 0)


def test_a_record_beyond_the_bound_costs_no_other(open_spool: OpenSpool) -> None:
    spool = open_spool(max_bytes=10_000)
    first = spool.append(record(1))
    with pytest.raises(SpoolUnwritable, match=r"a record of \d+ bytes is too large for it"):
        spool.append(record(2, samples=1000))
    assert (spool.dropped_records, spool.dropped_samples) == (1, 1000)
    last = spool.append(record(3))
    assert [taken.batch for taken in drain(spool)] == [first, last]
