"""Estimator of contrasts: known values, and coverage of its interval in simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.measurement.estimate import Estimate, ratio, trimmed

EFFECT = 0.004
REPETITIONS = 2000


def test_without_trimming_it_is_students_interval() -> None:
    contrasts = [0.01, 0.03, 0.02, 0.06, 0.03]
    estimate = trimmed(contrasts, trim=0.0)
    low, high = stats.t.interval(0.95, 4, np.mean(contrasts), stats.sem(contrasts))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.03, low, high))


def test_a_trimmed_mean_leaves_out_a_tenth_at_each_end() -> None:
    estimate = trimmed([*range(1, 10), 1000.0])
    assert estimate.value == 5.5
    # Winsorized: 2, 2 … 9, 9 with standard deviation 2.718; Student's t with 7 degrees of freedom is 2.365.
    deviation = np.std([2, *range(2, 10), 9], ddof=1)
    assert estimate.half_width == pytest.approx(2.3646 * deviation * math.sqrt(10) / 8, rel=1e-4)
    assert estimate.value == stats.trim_mean([*range(1, 10), 1000.0], 0.1)


@pytest.mark.parametrize("contrasts", [[], [0.01]])
def test_one_contrast_has_no_interval(contrasts: list[float]) -> None:
    assert trimmed(contrasts).half_width == math.inf


@pytest.mark.parametrize("count", [10, 40, 120])
@pytest.mark.parametrize("disturbed", [0.0, 0.1])
def test_the_interval_covers_a_known_slow_down(count: int, disturbed: float) -> None:
    """Noise of 1 %, of 8 % in a part of the blocks; steal that slows a training by its share."""
    random = np.random.default_rng(20261126)
    covered, widths = 0, []
    for _ in range(REPETITIONS):
        noise = random.normal(0, np.where(random.random(count) < disturbed, 0.08, 0.01))
        steal = random.normal(0, 0.01, count)
        estimate = trimmed(EFFECT + steal + noise, [list(steal)])
        covered += estimate.low <= EFFECT <= estimate.high
        widths.append(estimate.half_width)
    assert 0.935 <= covered / REPETITIONS <= 0.985
    if disturbed:
        assert np.median(widths) < 0.6 * 1.96 * math.sqrt(0.9 * 0.01**2 + 0.1 * 0.08**2 + 0.01**2) / math.sqrt(count)


def test_adjustment_removes_what_covariates_explain() -> None:
    random = np.random.default_rng(1)
    steal, rate = random.normal(0.001, 0.01, 100), random.normal(0, 50, 100)
    contrasts = EFFECT + 1.1 * steal - 0.0002 * rate
    estimate = trimmed(contrasts, [list(steal), list(rate)])
    assert (estimate.low, estimate.high) == pytest.approx((EFFECT, EFFECT))


@pytest.mark.parametrize(
    ("count", "covariates"),
    [(100, [[0.0] * 100]), (9, [list(range(9))])],
    ids=["constant", "few contrasts"],
)
def test_adjustment_without_usable_covariates_changes_nothing(count: int, covariates: list[list[float]]) -> None:
    contrasts = [0.001 * number for number in range(count)]
    assert trimmed(contrasts, covariates) == trimmed(contrasts)


def test_ratio_of_logarithms() -> None:
    estimate = ratio(Estimate(math.log(1.02), -math.inf, 1e6))
    assert estimate.value == pytest.approx(0.02)
    assert (estimate.low, estimate.high) == (-1, math.inf)
