"""Test of a difference between two small samples against a threshold, with interval and power.

Welch's t allows the two to have spreads of their own. Where one of them has two or three values and the other many, it raises
more false alarms than it says (7.5% instead of 5% for 2 against 10), so Student's t, which takes their spreads as one, has to agree:
the larger p counts. Where both have as many values, it agrees by itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = ["Counts", "effect_size", "margin", "p_value", "power", "repetitions"]

Counts = tuple[int, int]
Floats = npt.NDArray[np.float64]
Figure = TypeVar("Figure", float, Floats)

# Probabilities at which a variance that could have been seen is taken, and their weights: ten by ten give a power to 0.001.
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(10))
# More than anybody repeats.
_MOST_REPETITIONS = 200


def p_value(beyond: Figure, variances: tuple[Figure, Figure], counts: Counts) -> Figure:
    """Return how likely a difference is so far beyond a threshold that is not exceeded, or farther: one-sided.

    Where no value differs from another of its sample, it is how seldom chance alone would part them so, as a permutation
    test counts it: 1 of 20 for three values each.

    Parameters
    ----------
    beyond
        The difference of the means, less the threshold; figures or arrays of one shape.
    variances
        Of each sample (n - 1).
    counts
        How many values each has, two or more.
    """
    without_spread = np.where(np.asarray(beyond) > 0, 1 / math.comb(sum(counts), counts[0]), 1.0)
    found = [
        np.where(error > 0, special.stdtr(freedom, -beyond / np.where(error > 0, error, 1.0)), without_spread)
        for error, freedom in _scales(variances, counts)
    ]
    return cast("Figure", np.maximum(*found)[()])


def margin(variances: tuple[Figure, Figure], counts: Counts, alpha: float) -> Figure:
    """Return how far beyond a threshold a difference has to be for a p-value of `alpha`."""
    return cast(
        "Figure",
        np.maximum(*(error * special.stdtrit(freedom, 1 - alpha) for error, freedom in _scales(variances, counts)))[()],
    )


def power(beyond: float, variances: tuple[float, float], counts: Counts, alpha: float) -> float:
    """Return how often a true difference so far beyond the threshold has a p-value of `alpha` or less.

    It is the mean over the variances that samples of these sizes can have where the true ones are `variances`: those that were
    seen, which is what makes it an estimate.
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
    """Return how many values of each it takes for a power of `wanted`; ``None`` where 200 are too few."""
    numbers = range(2, _MOST_REPETITIONS + 1)
    at = bisect_left(numbers, wanted, key=lambda n: power(beyond, (variance, variance), (n, n), alpha))
    return numbers[at] if at < len(numbers) else None


def effect_size(difference: float, variances: tuple[float, float], counts: Counts) -> float | None:
    """Return a difference in standard deviations (Hedges' g with the mean of the variances); ``None`` where these are 0."""
    deviation = math.sqrt(sum(variances) / 2)
    return difference / deviation * (1 - 3 / (4 * (sum(counts) - 2) - 1)) if deviation else None


def _scales(variances: tuple[Figure, Figure], counts: Counts) -> Iterator[tuple[Floats, Floats]]:
    """Yield the standard error of the difference and its degrees of freedom, as Welch and as Student have them."""
    (new, old), (n_new, n_old) = (np.asarray(one, np.float64) for one in variances), counts
    parts = new / n_new + old / n_old
    of_parts = (new / n_new) ** 2 / (n_new - 1) + (old / n_old) ** 2 / (n_old - 1)
    yield np.sqrt(parts), np.where(parts > 0, parts**2 / np.where(of_parts > 0, of_parts, 1.0), 1.0)
    freedom = n_new + n_old - 2
    pooled = ((n_new - 1) * new + (n_old - 1) * old) / freedom
    yield np.sqrt(pooled * (1 / n_new + 1 / n_old)), np.asarray(freedom, np.float64)
