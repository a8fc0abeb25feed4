"""Change points and spikes of curves, distinct from noise, autocorrelation and drift.

Curves have the shape ``(n, k)``: n points of k curves, on a scale on which a significant difference is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Noise", "edges", "noise_of", "spikes", "without_spikes"]

Floats = npt.NDArray[np.float64]

# Probability of a cut in pure noise.
FALSE_ALARMS = 0.01
# Lower bound of the noise, which quantized and mostly constant curves understate.
_LEAST_NOISE = 1 / 3
# Upper bound of the noise's correlation from point to point.
_MOST_MEMORY = 0.8
# Points on either side that determine a step.
_WINDOW = 60
# Smallest ratio of a step to its uncertainty.
_SURE = 5.0
# Multiple of the noise that makes a spike.
_FAR = 6.0


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of curves, shape ``(k,)``: of points, and of means, as the deviation of equivalent independent points."""

    point: Floats
    mean: Floats


def noise_of(points: Floats, cuts: Sequence[int] = ()) -> Noise:
    """Return the noise of curves from differences of adjacent points without those across `cuts`.

    Correlated noise differs more over two points than over one: by 1 + r for AR(1) with the correlation r.
    The mean of n points then has the variance (1 + r) / (1 - r) / n instead of 1 / n.
    """
    piece = np.searchsorted(np.array(cuts), np.arange(len(points)), side="right")
    one, two = (_spread((points[lag:] - points[:-lag])[piece[lag:] == piece[:-lag]]) for lag in (1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        memory = np.clip(np.nan_to_num((two / one) ** 2 - 1, posinf=0.0), 0, _MOST_MEMORY)
    point = one / np.sqrt(1 - memory)
    mean = point * np.sqrt((1 + memory) / (1 - memory))
    return Noise(np.maximum(point, _LEAST_NOISE), np.maximum(mean, _LEAST_NOISE))


def _spread(differences: Floats) -> Floats:
    """Return the deviation of points from the smaller differences between two; those across a step are larger.

    The smallest 70 % of the absolute values of a normal distribution have a mean of 0.4736 of its deviation. That mean is
    more precise than the median.
    """
    smaller = np.sort(np.abs(differences), axis=0)[: max(1, round(0.7 * len(differences)))]
    return smaller.mean(axis=0) / 0.4736 / np.sqrt(2) if len(differences) else np.zeros(differences.shape[1])


def spikes(points: Floats) -> npt.NDArray[np.bool_]:
    """Return for each point of each curve whether it is far from both adjacent points."""
    found = np.zeros(points.shape, np.bool_)
    if len(points) >= 5:
        off = np.abs(points[1:-1] - _middle(points))
        found[1:-1] = off > np.maximum(2.0, _FAR * noise_of(points).point)
    return found


def without_spikes(points: Floats, found: npt.NDArray[np.bool_]) -> Floats:
    """Return curves with each spike replaced by the median of three points."""
    smooth = points.copy()
    smooth[1:-1][found[1:-1]] = _middle(points)[found[1:-1]]
    return smooth


def _middle(points: Floats) -> Floats:
    middle: Floats = np.median(np.stack([points[:-2], points[1:-1], points[2:]]), axis=0)
    return middle


def edges(points: Floats) -> list[int]:
    """Return the start of each piece of the curves, and the end of the last.

    PELT finds the best piecewise means; each further piece must explain more than noise does with the probability
    `FALSE_ALARMS`. Only cuts at a significant, sudden step remain: PELT also cuts drifts and oscillations.
    """
    count, _ = points.shape
    if count < 4:
        return [0, count]
    # Again without differences across the first cuts, which count as noise if they are many.
    cuts = _cuts(points, noise_of(points))
    noise = noise_of(points, cuts)
    return _standing(points, noise, _cuts(points, noise))


def _cuts(points: Floats, noise: Noise) -> list[int]:
    # These imports take a second.
    from ruptures import KernelCPD
    from scipy.stats import chi2

    count, curves = points.shape
    penalty = float(chi2.isf(FALSE_ALARMS / count, curves))
    # The linear kernel is the squared distance from a piece's mean: ordinary PELT, in C.
    search = KernelCPD(kernel="linear", min_size=2).fit(_sharpened(points, noise) / noise.mean)
    return [0, *map(int, search.predict(pen=penalty))]


def _sharpened(points: Floats, noise: Noise) -> Floats:
    """Return curves with each point in the middle of a step moved to the nearer adjacent point.

    A point of a long run has several samples, and a step may occur among them.
    """
    from_last, to_next = points[1:-1] - points[:-2], points[2:] - points[1:-1]
    far = np.maximum(1.0, 3 * noise.point)
    between = (from_last * to_next > 0) & (np.abs(from_last) > far) & (np.abs(to_next) > far)
    # Not in a longer rise, whose points are all between others.
    rises = np.abs(np.diff(points, axis=0, prepend=points[:1], append=points[-1:]))
    between &= np.maximum(rises[:-3], rises[3:]) < np.abs(from_last + to_next) / 4
    # All curves move to the same side; otherwise a piece would mix old and new levels.
    to_last = (np.abs(from_last) * between).sum(axis=1) < (np.abs(to_next) * between).sum(axis=1)
    sharp = points.copy()
    at = np.flatnonzero(between.any(axis=1))
    sharp[at + 1] = points[np.where(to_last[at], at, at + 2)]
    return sharp


def _standing(points: Floats, noise: Noise, cuts: list[int]) -> list[int]:
    """Return the cuts at steps; the weakest cut is removed until all are steps."""
    strengths = [_strength(points, noise, *cuts[at - 1 : at + 2]) for at in range(1, len(cuts) - 1)]
    while strengths and min(strengths) < 1:
        weakest = int(np.argmin(strengths))
        del strengths[weakest], cuts[weakest + 1]
        for at in (weakest, weakest + 1):  # adjacent cuts have more points now
            if 1 <= at < len(cuts) - 1:
                strengths[at - 1] = _strength(points, noise, *cuts[at - 1 : at + 2])
    return cuts


def _strength(points: Floats, noise: Noise, first: int, cut: int, end: int) -> float:
    """Return the strength of a step; from 1 on, a step of some curve is significant and certain.

    The fit is a line with a step, so a drift has a step of 0. The residuals count as noise if they exceed the usual noise.
    """
    window = points[max(first, cut - _WINDOW) : min(end, cut + _WINDOW)]
    before = cut - max(first, cut - _WINDOW)
    at = np.arange(len(window), dtype=np.float64)
    design = np.column_stack([np.ones(len(window)), at - at.mean(), at >= before])
    inverse = np.linalg.pinv(design.T @ design)
    fitted = inverse @ design.T @ window
    freedom = len(window) - 3
    own = ((window - design @ fitted) ** 2).sum(axis=0) / freedom if freedom > 0 else np.zeros(window.shape[1])
    # The mean is at least as certain as one point, despite correlation.
    usual = np.minimum(noise.mean**2, min(before, len(window) - before) * noise.point**2)
    uncertain = np.sqrt(inverse[2, 2] * np.maximum(own, usual))
    step = np.abs(fitted[2])
    return float(np.max(np.minimum(step, step / (_SURE * uncertain))))
