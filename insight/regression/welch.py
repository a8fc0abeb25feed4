"""Test of a difference between two small samples against a threshold, with interval and power.

Its margin is that of `hypergauge.insight.small_samples`, for any ratio of the spreads. Welch's t alone raises more false alarms than
stated, by far with two or three values against many.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy import special

from hypergauge.insight import small_samples

__all__ = ["Counts", "effect_size", "margin", "p_value", "power", "repetitions"]

Counts = tuple[int, int]
Floats = npt.NDArray[np.float64]
Value = TypeVar("Value", float, Floats)

# Gauss-Legendre nodes and weights over the distribution of variances: ten by ten give a power to 0.001.
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(10))
# Search limit.
_MOST_REPETITIONS = 200


def p_value(beyond: Value, variances: tuple[Value, Value], counts: Counts) -> Value:
    """Return the one-sided p-value of a difference beyond a threshold.

    Samples without variance get the p-value of a permutation test: 1 of 20 for three values each.

    Parameters
    ----------
    beyond
        Difference of the means, less the threshold; numbers or arrays of one shape.
    variances
        Of each sample (n - 1).
    counts
        Sizes, two or more.
    """
    without_spread = np.where(np.asarray(beyond) > 0, 1 / math.comb(sum(counts), counts[0]), 1.0)
    found = small_samples.p_value(np.asarray(beyond, np.float64), _arrays(variances), counts)
    return cast("Value", np.where(_has_spread(variances), found, without_spread)[()])


def margin(variances: tuple[Value, Value], counts: Counts, alpha: float) -> Value:
    """Return the difference beyond a threshold with a p-value of `alpha`."""
    found = small_samples.margin(_arrays(variances), counts, alpha)
    return cast("Value", np.where(_has_spread(variances), found, 0.0)[()])


def power(beyond: float, variances: tuple[float, float], counts: Counts, alpha: float) -> float:
    """Return the power: how often a true difference beyond the threshold has a p-value of `alpha` or less.

    It is the mean over the distribution of sample variances around `variances`. These are measured, so it is an estimate.
    """
    error = math.sqrt(sum(variance / count for variance, count in zip(variances, counts, strict=True)))
    if error == 0:
        return float(p_value(beyond, variances, counts) <= alpha)
    new, old = (
        variance * special.chdtri(count - 1, 0.5 + _NODES) / (count - 1)
        for variance, count in zip(variances, counts, strict=True)
    )
    needed = margin((new[:, None], old[None, :]), counts, alpha)
    return float(_WEIGHTS @ special.ndtr((beyond - needed) / error) @ _WEIGHTS)


def repetitions(beyond: float, variance: float, alpha: float, wanted: float) -> int | None:
    """Return the sample size for a power of `wanted`; ``None`` if 200 are too few."""
    numbers = range(2, _MOST_REPETITIONS + 1)
    at = bisect_left(numbers, wanted, key=lambda n: power(beyond, (variance, variance), (n, n), alpha))
    return numbers[at] if at < len(numbers) else None


def effect_size(difference: float, variances: tuple[float, float], counts: Counts) -> float | None:
    """Return a difference in standard deviations (Hedges' g, mean variance); ``None`` without variance."""
    deviation = math.sqrt(sum(variances) / 2)
    return difference / deviation * (1 - 3 / (4 * (sum(counts) - 2) - 1)) if deviation else None


def _arrays(variances: tuple[Value, Value]) -> list[Floats]:
    return [np.asarray(one, np.float64) for one in variances]


def _has_spread(variances: tuple[Value, Value]) -> npt.NDArray[np.bool_]:
    return np.asarray(variances[0] + variances[1]) > 0
