"""Page cache tags of a run: cold for the first attempt after a boot, which reads its input from disk, else warm."""

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
        Position of the run in its workload.
    run_before
        Positions of the workload whose runs this host has started since its last boot.
    root
        Folder that contains ``proc``.
    """
    tags = {"hypergauge.cache": "warm" if position in run_before else "cold"}
    try:
        memory = (root / "proc/meminfo").read_text()
    except OSError:
        return tags
    if cached := re.search(r"^Cached: +([0-9]+) kB$", memory, re.MULTILINE):
        tags["hypergauge.page_cache_bytes"] = str(int(cached[1]) * 1024)
    return tags
