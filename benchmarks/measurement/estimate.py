"""Estimator of a mean contrast: trimmed, adjusted for covariates, with a confidence interval.

The trimmed mean leaves out a tenth of the contrasts at each end, since a neighbour on the same hardware disturbs a few of
them strongly. Its interval is that of Tukey and McLaughlin (1963): Student's t with the winsorized variance. In
simulations with such disturbances its coverage is 95 %, see ``tests/unit/benchmarks/test_estimate.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

__all__ = ["Estimate", "ratio", "trimmed"]

TRIM = 0.1
CONFIDENCE = 0.95
# Contrasts for each covariate, below which it is left out.
_CONTRASTS_AT_LEAST = 10

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate with its confidence interval; infinite where there are fewer than two contrasts."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Return half the width of the interval."""
        return (self.high - self.low) / 2


def trimmed(
    contrasts: Sequence[float] | Array, covariates: Sequence[Sequence[float]] = (), trim: float = TRIM
) -> Estimate:
    """Return the trimmed mean of contrasts at equal conditions, with its 95 % interval.

    Parameters
    ----------
    covariates
        Contrasts of conditions, each as long as `contrasts`; 0 means equal conditions on both sides. Their part is
        subtracted by least squares. A covariate that does not vary is left out, and each needs ten contrasts.
    trim
        Share to leave out at each end; with 0 the interval is Student's.
    """
    values, varying, spread = _adjusted(np.asarray(contrasts, dtype=np.float64), covariates)
    ordered = np.sort(values)
    count = len(ordered)
    cut = int(trim * count)
    kept = ordered[cut : count - cut]
    freedom = len(kept) - 1 - varying
    if freedom < 1:
        return Estimate(float(kept.mean()) if len(kept) else math.nan, -math.inf, math.inf)
    winsorized = np.clip(ordered, kept[0], kept[-1])
    error = math.sqrt(winsorized.var(ddof=1 + varying) * count * spread) / len(kept)
    value = float(kept.mean())
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * error)
    return Estimate(value, value - half, value + half)


def _adjusted(values: Array, covariates: Sequence[Sequence[float]]) -> tuple[Array, int, float]:
    """Return contrasts without the covariates' part, the number of covariates, and the factor of the mean's variance.

    The factor is that of a regression's intercept: covariates whose means are not 0 make it less certain.
    """
    varying = [np.asarray(one, dtype=np.float64) for one in covariates if len(values) and np.ptp(one) > 0]
    varying = varying[: len(values) // _CONTRASTS_AT_LEAST]
    if not varying:
        return values, 0, 1.0
    columns = np.column_stack(varying)
    design = np.column_stack([np.ones(len(values)), columns])
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    explained: Array = columns @ solution[1:]
    return values - explained, len(varying), float(len(values) * np.linalg.pinv(design.T @ design)[0, 0])


def ratio(estimate: Estimate) -> Estimate:
    """Return the relative change of an estimated difference of logarithms."""
    return Estimate(*(_expm1(one) for one in (estimate.value, estimate.low, estimate.high)))


def _expm1(value: float) -> float:
    try:
        return math.expm1(value)
    except OverflowError:
        return math.inf
