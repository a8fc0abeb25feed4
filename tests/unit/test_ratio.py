"""Ratios of few repetitions: what they are, and that their intervals hold what was put in as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from insight.ratio import CONFIDENCE, Ratio, ratio

DRAWS = 600


@pytest.mark.parametrize(
    ("mine", "others"),
    [([12.0], [[10.0, 11.0]]), ([12.0, 13.0], [[10.0]]), ([12.0, 13.0], [[5.0, 6.0], [7.0]])],
)
def test_of_one_repetition_there_is_no_interval(mine: list[float], others: list[list[float]]) -> None:
    found = ratio(mine, others)
    assert (found.low, found.high) == (None, None)
    assert found.value == pytest.approx(np.mean(mine) / sum(map(np.mean, others)))


def test_the_interval_is_that_of_welch_on_logarithms_where_spreads_are_small() -> None:
    rng = np.random.default_rng(1)
    mine, other = rng.normal(13, 0.01, 5), rng.normal(10, 0.02, 3)
    welch = stats.ttest_ind(np.log(mine), np.log(other), equal_var=False).confidence_interval(CONFIDENCE)
    found = ratio(list(mine), [list(other)])
    assert (found.low, found.high) == pytest.approx((np.exp(welch.low), np.exp(welch.high)), rel=1e-5)


def test_without_spread_it_is_a_point() -> None:
    assert ratio([2.0, 2.0], [[1.0, 1.0]]) == Ratio(2, 2, 2)


@pytest.mark.parametrize("spread", [0.02, 0.1], ids=["2 % of the mean", "10 %"])
@pytest.mark.parametrize(("mine", "others"), [(2, [2]), (3, [3]), (5, [5]), (3, [3, 3]), (2, [2, 2, 2]), (5, [2])])
def test_intervals_hold_what_was_put_in(mine: int, others: list[int], spread: float) -> None:
    rng = np.random.default_rng(20)
    held = 0
    for _ in range(DRAWS):
        found = ratio(
            list(rng.normal(15, 15 * spread, mine)),
            [list(rng.normal(10 / len(others), 10 / len(others) * spread / 2, count)) for count in others],
        )
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.5 <= found.high
    # 95 % of 600, less four standard errors: a Welch interval of two repetitions is that far from exact itself.
    assert held / DRAWS > CONFIDENCE - 4 * (CONFIDENCE * (1 - CONFIDENCE) / DRAWS) ** 0.5
