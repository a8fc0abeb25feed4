"""How many times as long, or as much, one thing takes as others do, of few repetitions, and how sure that is."""

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
    """A ratio of means, and the interval that it lies in; none where one of the means is of a single repetition."""

    value: float
    low: float | None = None
    high: float | None = None


def ratio(mine: Sequence[float], others: Sequence[Sequence[float]]) -> Ratio:
    """Return the mean of `mine` divided by the sum of the means of `others`, all positive.

    The interval is Welch's, on the logarithm: the relative variances of the means are added (the delta method), and the
    degrees of freedom are Satterthwaite's. It asks for independent repetitions, roughly normal and with spreads that are
    small against their means, but not for equal spreads. With ``[12, 13]`` and ``[[10, 11]]`` it is 1.19, from 0.90 to
    1.57: two repetitions say little, and the interval says so.
    """
    base = math.fsum(statistics.fmean(other) for other in others)
    mean = statistics.fmean(mine)
    value = mean / base
    if len(mine) < 2 or any(len(other) < 2 for other in others):
        return Ratio(value)
    parts = [(_of_mean(mine) / mean**2, len(mine)), *((_of_mean(other) / base**2, len(other)) for other in others)]
    variance = math.fsum(part for part, _ in parts)
    if variance == 0:
        return Ratio(value, value, value)
    freedom = variance**2 / math.fsum(part**2 / (count - 1) for part, count in parts)
    width = math.exp(float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(variance))
    return Ratio(value, value / width, value * width)


def _of_mean(values: Sequence[float]) -> float:
    """Return the variance of the mean of some repetitions."""
    return statistics.variance(values) / len(values)
