"""Spread of many curves: their median and outer quantiles at each point of a common axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Spread", "extremes", "spread"]

Floats = npt.NDArray[np.float64]

# Points of the common axis where curves do not share theirs.
_POINTS = 400
_QUANTILES = (0.1, 0.5, 0.9)
# Share of the curves that have a value where there are quantiles.
_ENOUGH = 0.75


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of `count` curves: 10th percentile, median and 90th percentile at each point `x`."""

    count: int
    x: Floats
    low: Floats
    median: Floats
    high: Floats


def spread(curves: Sequence[tuple[Floats, Floats]]) -> Spread:
    """Return the spread of curves, each as positions and values.

    Curves are interpolated linearly between their points, but not beyond them and not over a NaN. Points where fewer than
    three quarters of the curves have a value are left out: the quantiles there would be those of the longest runs alone.
    """
    x = np.unique(np.concatenate([positions for positions, _ in curves]))
    if len(x) > _POINTS and len(x) > max(len(positions) for positions, _ in curves):
        x = np.linspace(x[0], x[-1], _POINTS)
    values = np.array([np.interp(x, positions, some, np.nan, np.nan) for positions, some in curves])
    enough = (~np.isnan(values)).sum(axis=0) >= _ENOUGH * len(curves)
    x, values = x[enough], values[:, enough]
    low, median, high = np.nanquantile(values, _QUANTILES, axis=0) if len(x) else (x, x, x)
    return Spread(len(curves), x, low, median, high)


def extremes(curves: Sequence[tuple[Floats, Floats]]) -> tuple[int, int]:
    """Return the indices of the curves with the lowest and the highest mean over their points."""
    means = [float(np.nanmean(some)) for _, some in curves]
    return means.index(min(means)), means.index(max(means))
