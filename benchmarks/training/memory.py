"""Memory-bound training: sums of arrays that are larger than the cache, one process on each core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.training.members import Members

__all__ = ["members"]

PART = 1 << 20  # elements of a step: three streams of 4 MiB, some milliseconds
_AT_LEAST = 64 << 20


def members(cores: int, _: Path) -> Members:
    """Return a trainer for each core."""
    return {f"trainer-{number}": _steps for number in range(cores)}


def _steps() -> Iterator[None]:
    length = -(-max(2 * _cache_bytes(), _AT_LEAST) // (4 * PART)) * PART
    weights, gradients, updated = (np.ones(length, dtype=np.float32) for _ in range(3))
    while True:
        for start in range(0, length, PART):
            part = slice(start, start + PART)
            np.add(weights[part], gradients[part], out=updated[part])
            yield


def _cache_bytes() -> int:
    """Return the size of the largest cache, 0 if unknown."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((int(path.read_text().strip().rstrip("K")) << 10 for path in sizes), default=0)
