"""Limits of stored values and texts, within which PostgreSQL accepts them and can compute with them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["EARLIEST", "LATEST", "is_time", "limited", "limited_value", "storable"]

# Unix seconds, in the years 68 and 5138. Python has no time before the year 1 or after 9999.
EARLIEST, LATEST = -6e10, 1e11
# PostgreSQL refuses a result outside the range of doubles, and with it the whole query: one value would stop the aggregates
# of all series. Squares, products with seconds and sums over centuries of values within these limits stay inside.
_SMALLEST, _LARGEST = 1e-150, 1e150


def is_time(seconds: float) -> bool:
    """Return whether the database stores a time and Python reads it. Unix seconds; NaN is none."""
    return EARLIEST <= seconds < LATEST


def limited(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the values to store, shape ``(n,)``; NaN stands for SQL's null.

    A value beyond ±1e150 is missing: infinity, a loss that diverged, the largest double for "no limit". One nearer to 0
    than 1e-150 is 0.
    """
    import numpy as np  # each run has a supervisor, which needs the other functions alone

    sizes = np.abs(values)
    beyond, tiny = sizes > _LARGEST, (sizes < _SMALLEST) & (sizes > 0)
    if not beyond.any() and not tiny.any():
        return values
    return np.where(beyond, np.nan, np.where(tiny, 0.0, values))


def limited_value(value: float) -> float:
    """Return a value to store as `limited` does."""
    if not abs(value) <= _LARGEST:
        return math.nan
    return 0.0 if abs(value) < _SMALLEST else value


def storable(text: str) -> str:
    """Return the text without NUL bytes and invalid UTF-8 (of file names), which PostgreSQL refuses."""
    return text.replace("\0", "").encode(errors="replace").decode()
