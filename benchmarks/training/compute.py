"""Compute-bound training: products of matrices that fit the cache, one process on each core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.training.members import Members

__all__ = ["members"]

SIZE = 128  # three matrices of 64 KiB
PRODUCTS = 16  # some milliseconds


def members(cores: int, _: Path) -> Members:
    """Return a trainer for each core."""
    return {f"trainer-{number}": _steps for number in range(cores)}


def _steps() -> Iterator[None]:
    random = np.random.default_rng(0)
    one, two = (random.standard_normal((SIZE, SIZE), dtype=np.float32) for _ in range(2))
    product = np.empty_like(one)
    while True:
        for _ in range(PRODUCTS):
            np.matmul(one, two, out=product)
        yield
