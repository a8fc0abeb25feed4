"""Page cache: may a run's input lie in memory already? The first attempt after a boot reads from disks."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

__all__ = ["cache_tags"]


def cache_tags(position: int, run_before: Collection[int], root: Path = Path("/")) -> dict[str, str]:
    """Return the tags of a run that is about to start.

    Parameters
    ----------
    position
        The run's, in its workload.
    run_before
        Positions of the workload whose runs this host has started since it was.
    root
        Where ``proc`` is.
    """
    tags = {"hypergauge.cache": "warm" if position in run_before else "cold"}
    try:
        memory = (root / "proc/meminfo").read_text()
    except OSError:
        return tags
    if cached := re.search(r"^Cached: +([0-9]+) kB$", memory, re.MULTILINE):
        tags["hypergauge.page_cache_bytes"] = str(int(cached[1]) * 1024)
    return tags
