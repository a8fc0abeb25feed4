"""Coverage of the intervals and rates of false alarms that the documentation promises, by fewer draws than the benchmark's.

A rate of 20,000 draws has a standard error of 0.15 points at 5 % and of 0.21 at 10 %. A test allows half a point and four of these.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.measurement.coverage import (
    ALPHA,
    calibration_coverage,
    delays,
    gate_alarms,
    gate_coverage,
    lognormal,
    ratio_coverage,
)

DRAWS = 20_000
CALIBRATIONS = 1500
SPREADS = [(0.02, 0.02), (0.06, 0.02), (0.02, 0.06), (0.2, 0.02), (0.02, 0.2)]


def slack(rate: float, draws: int = DRAWS) -> float:
    return 0.005 + 4 * math.sqrt(rate * (1 - rate) / draws)


@pytest.mark.parametrize("counts", [(2, 5), (5, 2), (2, 2), (3, 3), (5, 5), (2, 10), (3, 10), (5, 10)], ids=str)
def test_a_gate_keeps_its_rate_for_any_ratio_of_spreads(counts: tuple[int, int]) -> None:
    random = np.random.default_rng([1, *counts])
    for spreads in SPREADS:
        assert gate_alarms(random, counts, spreads, draws=DRAWS) <= ALPHA + slack(ALPHA)
        assert gate_coverage(random, counts, spreads, draws=DRAWS) >= 1 - 2 * ALPHA - slack(2 * ALPHA)


@pytest.mark.parametrize("counts", [(2, 5), (3, 3), (5, 5), (10, 3)], ids=str)
def test_a_strict_gate_keeps_its_rate(counts: tuple[int, int]) -> None:
    """Several conditions share a rate, so that each of ten has a tenth."""
    random = np.random.default_rng([2, *counts])
    for spreads in SPREADS:
        assert gate_alarms(random, counts, spreads, alpha=0.005, draws=DRAWS) <= 0.005 + slack(0.005)


@pytest.mark.parametrize("counts", [(10, 3), (3, 3), (5, 2), (10, 5)], ids=str)
def test_delays_raise_no_more_alarms(counts: tuple[int, int]) -> None:
    random = np.random.default_rng([3, *counts])
    assert gate_alarms(random, counts, (0.2, 0.2), delays, draws=DRAWS) <= ALPHA + slack(ALPHA)


@pytest.mark.parametrize("noise", [lognormal, delays])
@pytest.mark.parametrize("counts", [(2, 5), (3, 3), (5, 5), (2, 2), (10, 3), (3, 3, 3), (2, 5, 5)], ids=str)
def test_the_interval_of_a_ratio_covers_it(counts: tuple[int, ...], noise: object) -> None:
    random = np.random.default_rng([4, *counts])
    chosen, spreads = (lognormal, SPREADS) if noise is lognormal else (delays, [(0.02, 0.02), (0.2, 0.2)])
    for first, rest in spreads:
        some = (first, *[rest] * (len(counts) - 1))
        assert ratio_coverage(random, counts, some, chosen, draws=DRAWS) >= 0.95 - slack(0.05)


@pytest.mark.parametrize(("within", "most"), [(0.5, None), (0.8, None), (0.2, 4), (0.3, 12)])
def test_a_calibration_covers_the_cost_whenever_it_ends(within: float, most: int | None) -> None:
    random = np.random.default_rng([5, round(10 * within)])
    covered = calibration_coverage(random, within, most=most, draws=CALIBRATIONS)
    assert covered >= 0.95 - slack(0.05, CALIBRATIONS)
