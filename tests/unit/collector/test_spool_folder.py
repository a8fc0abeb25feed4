"""Folder of the spool: its lock, its batch numbers, full disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypergauge.collector.spool.folder import SpoolInUse, SpoolUnwritable
from hypergauge.collector.spool.queue import Spool
from hypergauge.core.errors import BenchError
from tests.support.collector.spool import OpenSpool, drain, record, segments
from tests.support.disks import fill, small_disk


@pytest.mark.parametrize("orderly", [True, False])
def test_batch_numbers_never_restart(open_spool: OpenSpool, tmp_path: Path, orderly: bool) -> None:
    highest = 0
    for _ in range(5):
        spool = open_spool()
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


def test_a_second_process_is_refused(open_spool: OpenSpool, tmp_path: Path) -> None:
    spool = open_spool()
    with pytest.raises(SpoolInUse, match=rf"another collector \(process {os.getpid()}\) works on the spool"):
        Spool(tmp_path / "spool")
    spool.append(record(1))
    spool.close()
    assert open_spool().take() is not None


def test_an_unusable_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolUnwritable, match="cannot be used"):
        Spool(tmp_path / "file" / "spool")


@pytest.mark.parametrize("name", ["source", "next"])
def test_a_damaged_file_is_refused(open_spool: OpenSpool, tmp_path: Path, name: str) -> None:
    open_spool().append(record(1))
    open_spool().close()
    kept = (tmp_path / "spool" / name).read_text()
    (tmp_path / "spool" / name).write_text("\x00\x00")
    with pytest.raises(BenchError, match=f"{name} is damaged"):
        open_spool()
    (tmp_path / "spool" / name).write_text(kept)
    assert len(drain(open_spool())) == 1


@pytest.mark.parametrize("accepted", [True, False], ids=["accepted", "backlog"])
def test_appends_continue_on_a_full_disk(open_spool: OpenSpool, tmp_path: Path, accepted: bool) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        spool = open_spool(disk / "spool", max_bytes=1 << 30 if accepted else 200_000)
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


def test_a_spool_is_opened_and_drained_on_a_full_disk(open_spool: OpenSpool, tmp_path: Path) -> None:
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
