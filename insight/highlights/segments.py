"""Change points and spikes of curves, told from noise, autocorrelation and drift.

Curves are given on a scale on which what matters differs by 1, and have the shape ``(n, k)``: n points of k curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Noise", "edges", "noise_of", "spikes", "without_spikes"]

Floats = npt.NDArray[np.float64]

# How often curves that are noise alone are cut at all.
FALSE_ALARMS = 0.01
# Of quantised curves, and those that mostly stand still, the noise is underestimated: it is never taken to be below this.
_LEAST_NOISE = 1 / 3
# The longest that noise is taken to remember, as the correlation of a point with the one before.
_MOST_MEMORY = 0.8
# A step is judged by as many points on either side.
_WINDOW = 60
# And must be so many times as large as it is uncertain.
_SURE = 5.0
# So many times the noise is no noise.
_FAR = 6.0


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of curves, shape ``(k,)``: of single points, and of means, as the deviation that independent points would have."""

    point: Floats
    mean: Floats


def noise_of(points: Floats, cuts: Sequence[int] = ()) -> Noise:
    """Return the noise of curves from the differences of neighbours, most of which are of one piece; `cuts` say of which.

    Over two points noise with a memory differs more than over one: by AR(1), of the correlation r, 1 + r times as much.
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
    """Return the deviation of single points by the mean of the smaller differences of two: those across a step are larger.

    Of the absolute values of a normal distribution, the smallest 70 % have 0.4736 of its deviation as their mean; that says
    more of it than the middle one does.
    """
    smaller = np.sort(np.abs(differences), axis=0)[: max(1, round(0.7 * len(differences)))]
    return smaller.mean(axis=0) / 0.4736 / np.sqrt(2) if len(differences) else np.zeros(differences.shape[1])


def spikes(points: Floats) -> npt.NDArray[np.bool_]:
    """Return of each point of each curve whether it is off for that moment: far from both of its neighbours."""
    found = np.zeros(points.shape, np.bool_)
    if len(points) >= 5:
        off = np.abs(points[1:-1] - _middle(points))
        found[1:-1] = off > np.maximum(2.0, _FAR * noise_of(points).point)
    return found


def without_spikes(points: Floats, found: npt.NDArray[np.bool_]) -> Floats:
    """Return curves in which each such point is as the middle one of it and its neighbours."""
    smooth = points.copy()
    smooth[1:-1][found[1:-1]] = _middle(points)[found[1:-1]]
    return smooth


def _middle(points: Floats) -> Floats:
    middle: Floats = np.median(np.stack([points[:-2], points[1:-1], points[2:]]), axis=0)
    return middle


def edges(points: Floats) -> list[int]:
    """Return where each piece of the curves begins, 0 first, and where the last ends.

    PELT finds the means that fit best where each further piece must explain more than the noise of all curves does once
    in a hundred times (`FALSE_ALARMS`). Of its cuts those stand at which a curve steps there and then, by what matters;
    one that drifts or swings is cut in some place or other, and put together again.
    """
    count, _ = points.shape
    if count < 4:
        return [0, count]
    # Once more without the differences across the first cuts: where there are many, they passed for noise.
    cuts = _cuts(points, noise_of(points))
    noise = noise_of(points, cuts)
    return _standing(points, noise, _cuts(points, noise))


def _cuts(points: Floats, noise: Noise) -> list[int]:
    # They take a second to be imported.
    from ruptures import KernelCPD
    from scipy.stats import chi2

    count, curves = points.shape
    penalty = float(chi2.isf(FALSE_ALARMS / count, curves))
    # With a linear kernel, the squared distance from a piece's mean: PELT as it is, in C.
    search = KernelCPD(kernel="linear", min_size=2).fit(_sharpened(points, noise) / noise.mean)
    return [0, *map(int, search.predict(pen=penalty))]


def _sharpened(points: Floats, noise: Noise) -> Floats:
    """Return curves without the points that are of two pieces: one on the way between both neighbours is as the nearer.

    In a long run a point stands for several samples, and a step may come in the midst of them.
    """
    from_last, to_next = points[1:-1] - points[:-2], points[2:] - points[1:-1]
    far = np.maximum(1.0, 3 * noise.point)
    between = (from_last * to_next > 0) & (np.abs(from_last) > far) & (np.abs(to_next) > far)
    # Of a curve that rises for longer, every point is on the way.
    rises = np.abs(np.diff(points, axis=0, prepend=points[:1], append=points[-1:]))
    between &= np.maximum(rises[:-3], rises[3:]) < np.abs(from_last + to_next) / 4
    # All curves go to one side, or there would be a piece in which some have changed and others have not.
    to_last = (np.abs(from_last) * between).sum(axis=1) < (np.abs(to_next) * between).sum(axis=1)
    sharp = points.copy()
    at = np.flatnonzero(between.any(axis=1))
    sharp[at + 1] = points[np.where(to_last[at], at, at + 2)]
    return sharp


def _standing(points: Floats, noise: Noise, cuts: list[int]) -> list[int]:
    """Return the cuts without those that are no steps: the weakest is taken out until all are some."""
    strengths = [_strength(points, noise, *cuts[at - 1 : at + 2]) for at in range(1, len(cuts) - 1)]
    while strengths and min(strengths) < 1:
        weakest = int(np.argmin(strengths))
        del strengths[weakest], cuts[weakest + 1]
        for at in (weakest, weakest + 1):  # its neighbours have got more points to be judged by
            if 1 <= at < len(cuts) - 1:
                strengths[at - 1] = _strength(points, noise, *cuts[at - 1 : at + 2])
    return cuts


def _strength(points: Floats, noise: Noise, first: int, cut: int, end: int) -> float:
    """Return how clear a step is: 1 where that of some curve matters and is sure, just so.

    Fitted is a line, and a step in it: of a curve that only drifts, the step is 0. What points are off that line counts as
    noise, where it is more than there is elsewhere.
    """
    window = points[max(first, cut - _WINDOW) : min(end, cut + _WINDOW)]
    before = cut - max(first, cut - _WINDOW)
    at = np.arange(len(window), dtype=np.float64)
    design = np.column_stack([np.ones(len(window)), at - at.mean(), at >= before])
    inverse = np.linalg.pinv(design.T @ design)
    fitted = inverse @ design.T @ window
    freedom = len(window) - 3
    own = ((window - design @ fitted) ** 2).sum(axis=0) / freedom if freedom > 0 else np.zeros(window.shape[1])
    # A mean is never less sure than one of its points, whatever these remember.
    usual = np.minimum(noise.mean**2, min(before, len(window) - before) * noise.point**2)
    uncertain = np.sqrt(inverse[2, 2] * np.maximum(own, usual))
    step = np.abs(fitted[2])
    return float(np.max(np.minimum(step, step / (_SURE * uncertain))))
