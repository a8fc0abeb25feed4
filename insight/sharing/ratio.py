"""Ratio of two means over few repetitions, with its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

__all__ = ["CONFIDENCE", "Ratio", "ratio"]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of means with its interval; no interval if a mean has a single repetition."""

    value: float
    low: float | None = None
    high: float | None = None


def ratio(mine: Sequence[float], others: Sequence[Sequence[float]]) -> Ratio:
    """Return the mean of `mine` divided by the sum of the means of `others`, all positive.

    The interval is on the logarithm, where the relative variances of the means add up (the delta method). It is the wider
    one of Welch's, with Satterthwaite's degrees of freedom, and Student's, which takes all relative spreads as one: Welch's
    alone is too narrow if one mean has two or three repetitions and the other many. The interval assumes independent,
    roughly normal repetitions, and spreads that are small against their means. With ``[12, 13]`` and ``[[10, 11]]`` the ratio is
    1.19, from 0.90 to 1.57: two repetitions give a wide interval.
    """
    base = math.fsum(statistics.fmean(other) for other in others)
    value = statistics.fmean(mine) / base
    samples = (mine, *others)
    if min(map(len, samples)) < 2:
        return Ratio(value)
    weights = [1.0, *((statistics.fmean(other) / base) ** 2 for other in others)]
    variances = [statistics.variance(one) / statistics.fmean(one) ** 2 for one in samples]
    parts = [weight / len(one) for weight, one in zip(weights, samples, strict=True)]
    free = [len(one) - 1 for one in samples]
    of_means = [part * variance for part, variance in zip(parts, variances, strict=True)]
    if not any(of_means):
        return Ratio(value, value, value)
    welch = math.fsum(of_means)
    freedom = welch**2 / math.fsum(one**2 / count for one, count in zip(of_means, free, strict=True))
    student = math.fsum(map(math.prod, zip(variances, free, strict=True))) / sum(free) * math.fsum(parts)
    width = math.exp(max(_width(welch, freedom), _width(student, sum(free))))
    return Ratio(value, value / width, value * width)


def _width(variance: float, freedom: float) -> float:
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(variance)
