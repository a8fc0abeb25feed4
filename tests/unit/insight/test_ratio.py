"""Ratios of few repetitions, and the coverage of their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from hypergauge.insight.regression import welch
from hypergauge.insight.sharing.ratio import CONFIDENCE, Ratio, ratio

DRAWS = 600


@pytest.mark.parametrize(
    ("mine", "others"),
    [([12.0], [[10.0, 11.0]]), ([12.0, 13.0], [[10.0]]), ([12.0, 13.0], [[5.0, 6.0], [7.0]])],
)
def test_of_one_repetition_there_is_no_interval(mine: list[float], others: list[list[float]]) -> None:
    found = ratio(mine, others)
    assert (found.low, found.high) == (None, None)
    assert found.value == pytest.approx(np.mean(mine) / sum(map(np.mean, others)))


@pytest.mark.parametrize(("mine", "other"), [(5, 3), (2, 8), (8, 2), (4, 4)])
def test_the_interval_is_that_of_a_gate_at_its_level(mine: int, other: int) -> None:
    """For small spreads, the relative variance of values is the variance of their logarithms."""
    rng = np.random.default_rng(1)
    beside, alone = rng.normal(13, 0.01, mine), rng.normal(10, 0.02, other)
    found = ratio(list(beside), [list(alone)])
    variances = float(np.log(beside).var(ddof=1)), float(np.log(alone).var(ddof=1))
    half = welch.margin(variances, (mine, other), (1 - CONFIDENCE) / 2)
    value = beside.mean() / alone.mean()
    assert (found.low, found.high) == pytest.approx((value / np.exp(half), value * np.exp(half)), rel=1e-5)


def test_without_spread_it_is_a_point() -> None:
    assert ratio([2.0, 2.0], [[1.0, 1.0]]) == Ratio(2, 2, 2)


@pytest.mark.parametrize("spread", [0.02, 0.1], ids=["2 % of the mean", "10 %"])
@pytest.mark.parametrize(
    ("mine", "others"), [(2, [2]), (3, [3]), (5, [5]), (3, [3, 3]), (2, [2, 2, 2]), (5, [2]), (2, [8])]
)
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
    # Three standard errors of this number of draws are allowed.
    assert held / DRAWS > CONFIDENCE - 3 * (CONFIDENCE * (1 - CONFIDENCE) / DRAWS) ** 0.5
