"""Fixtures of the collector's unit tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.collector.spool.queue import Spool
from tests.support.collector.spool import OpenSpool


@pytest.fixture
def open_spool(tmp_path: Path) -> Iterator[OpenSpool]:
    """Open the spool of this test; an open one remains as if its process had been killed."""
    spools: list[Spool] = []

    def opened(folder: Path = tmp_path / "spool", **options: int) -> Spool:
        if folder.exists():
            _crash(spools, folder)
        spools.append(Spool(folder, **options))
        return spools[-1]

    yield opened
    for spool in spools:
        spool.close()


def _crash(spools: list[Spool], folder: Path) -> None:
    """Restore `folder` to its content before its spool is closed, as after a kill."""
    left = folder.with_name("left")
    shutil.copytree(folder, left)
    while spools:
        spools.pop().close()
    shutil.rmtree(folder)
    left.rename(folder)
