"""The state of the page cache before a run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hypergauge.core.system.uptime import booted_at
from hypergauge.scheduler.provenance.page_cache import cache_tags

MEMINFO = "MemTotal:       16316412 kB\nSwapCached:            8 kB\nCached:          2048 kB\n"


@pytest.mark.parametrize(
    ("position", "meminfo", "expected"),
    [
        (1, MEMINFO, {"hypergauge.cache": "warm", "hypergauge.page_cache_bytes": "2097152"}),
        (2, MEMINFO, {"hypergauge.cache": "cold", "hypergauge.page_cache_bytes": "2097152"}),
        (2, "MemTotal: 1 kB\n", {"hypergauge.cache": "cold"}),
        (2, None, {"hypergauge.cache": "cold"}),
    ],
)
def test_a_row_that_ran_before_is_warm(
    tmp_path: Path, position: int, meminfo: str | None, expected: dict[str, str]
) -> None:
    if meminfo is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/meminfo").write_text(meminfo)
    assert cache_tags(position, {1, 3}, tmp_path) == expected


def test_this_host_was_started_before_now() -> None:
    assert 0 < booted_at() < time.time()
    assert int(cache_tags(1, ())["hypergauge.page_cache_bytes"]) > 0
