"""Ratio of two means over few repetitions, with its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypergauge.insight.small_samples import margin

__all__ = ["CONFIDENCE", "Ratio", "half_width", "ratio"]

CONFIDENCE = 0.95

Floats = npt.NDArray[np.float64]
Number = float | Floats


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of means with its interval; no interval if a mean has a single repetition."""

    value: float
    low: float | None = None
    high: float | None = None


def ratio(mine: Sequence[float], others: Sequence[Sequence[float]]) -> Ratio:
    """Return the mean of `mine` divided by the sum of the means of `others`, all positive.

    The interval is on the logarithm, where the relative variances of the means add up (the delta method). Its margin
    is that of `hypergauge.insight.small_samples`, for any ratio of the spreads. The interval assumes independent,
    roughly normal repetitions, and spreads that are small against their means: 20 % for two or three repetitions. With
    ``[12, 13]`` and ``[[10, 11]]`` the ratio is 1.19, from 0.71 to 1.99: two repetitions give a wide interval.
    """
    samples = (mine, *others)
    means = [statistics.fmean(one) for one in samples]
    value = means[0] / math.fsum(means[1:])
    if min(map(len, samples)) < 2:
        return Ratio(value)
    half = float(half_width(means, [statistics.variance(one) for one in samples], list(map(len, samples))))
    return Ratio(value, value / math.exp(half), value * math.exp(half))


def half_width(means: Sequence[Number], variances: Sequence[Number], counts: Sequence[int]) -> Floats:
    """Return half the width of the interval on the logarithm.

    Parameters
    ----------
    means, variances
        Of each sample, the numerator first; numbers or arrays of one shape.
    counts
        Size of each sample, two or more.
    """
    base = sum(means[1:])
    relative = [variance / mean**2 for mean, variance in zip(means, variances, strict=True)]
    weights = [np.ones(()), *((np.asarray(mean) / base) ** 2 for mean in means[1:])]
    return margin([np.asarray(one) for one in relative], counts, (1 - CONFIDENCE) / 2, weights)
