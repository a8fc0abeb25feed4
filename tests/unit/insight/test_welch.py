"""Rates of a thousand draws of the test behind ``--fail-on``: false alarms, and detected changes.

A rate of a thousand draws deviates by chance, once in about ten thousand times by more than `binomial`. Seeds are fixed.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from hypergauge.insight.comparison.verdicts import Group
from hypergauge.insight.regression import welch
from hypergauge.insight.regression.conditions import Condition
from hypergauge.insight.regression.trials import Trial, adjusted, verdicts

Floats = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, int]], Floats]

DRAWS = 1000
ALPHA = 0.05
SPREAD = 0.02  # of repetitions, as a share


def lognormal(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.exp(random.normal(0, SPREAD, shape))


def heavy(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return draws of Student's t with three degrees of freedom: a few attempts are far off."""
    return np.exp(SPREAD * random.standard_t(3, shape))


def hiccups(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return draws with one of ten attempts disturbed, and some 10 % longer."""
    return np.exp(random.normal(0, SPREAD, shape) + 0.1 * (random.random(shape) < 0.1))


def delays(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return draws with a minimum, to which most attempts are close."""
    return 1 + random.exponential(SPREAD, shape)


def binomial(rate: float) -> float:
    return 3.72 * math.sqrt(rate * (1 - rate) / DRAWS)


def group(values: Floats) -> Group:
    return Group("1/1/1", {f"1/1/1@{at}": float(one) for at, one in enumerate(values, 1)}, None, None)


def alarms(new: Floats, old: Floats, threshold: float, alpha: float = ALPHA) -> float:
    """Return the share of draws, one per line, with a detected rise beyond the threshold."""
    logs = np.log(new), np.log(old)
    rise = logs[0].mean(axis=1) - logs[1].mean(axis=1) - math.log1p(threshold)
    variances = logs[0].var(axis=1, ddof=1), logs[1].var(axis=1, ddof=1)
    p = welch.p_value(rise, variances, (new.shape[1], old.shape[1]))
    return float((p <= alpha).mean())


@pytest.mark.parametrize(
    "counts", [(2, 2), (3, 3), (5, 5), (10, 10), (3, 5), (3, 10), (10, 3), (2, 10), (2, 30)], ids=str
)
@pytest.mark.parametrize("noise", [lognormal, heavy, hiccups, delays])
def test_false_alarms_are_no_more_than_stated(noise: Noise, counts: tuple[int, int]) -> None:
    random = np.random.default_rng([7, *counts])
    new, old = noise(random, (DRAWS, counts[0])), noise(random, (DRAWS, counts[1]))
    for alpha in (0.05, 0.01):
        # False alarms are most frequent at the boundary, where the true change is the threshold.
        assert alarms(1.03 * new, old, 0.03, alpha) <= alpha + binomial(alpha)
        assert alarms(new / 1.03, old, -0.03 / 1.03, alpha) <= alpha + binomial(alpha)
    assert alarms(new, old, 0.03) <= alarms(new, old, 0.0) <= ALPHA + binomial(ALPHA)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
@pytest.mark.parametrize("counts", [(3, 3), (5, 5), (10, 10), (3, 10), (10, 3)], ids=str)
def test_spreads_may_differ(counts: tuple[int, int], ratio: float) -> None:
    random = np.random.default_rng([11, *counts])
    new, old = lognormal(random, (DRAWS, counts[0])) ** ratio, lognormal(random, (DRAWS, counts[1]))
    assert alarms(new, old, 0.0) <= ALPHA + binomial(ALPHA)


@pytest.mark.parametrize("counts", [(3, 3), (5, 5), (10, 10), (3, 10), (10, 3)], ids=str)
@pytest.mark.parametrize("spread", [0.01, 0.02, 0.04])
def test_a_change_of_5_percent_is_found_at_the_stated_power(counts: tuple[int, int], spread: float) -> None:
    random = np.random.default_rng([13, *counts])
    new, old = (np.exp(random.normal(0, spread, (DRAWS, count))) for count in counts)
    for threshold in (0.0, 0.02):
        stated = welch.power(math.log(1.05 / (1 + threshold)), (spread**2, spread**2), counts, ALPHA)
        assert alarms(1.05 * new, old, threshold) == pytest.approx(stated, abs=binomial(stated) + 0.002)


def test_a_thousand_verdicts() -> None:
    """The true change is the threshold. Each verdict estimates power from its own spread; the mean estimate is right."""
    random = np.random.default_rng(17)
    new, old = lognormal(random, (DRAWS, 5)), lognormal(random, (DRAWS, 5))
    condition = Condition.parse("step_time>+2%")
    found = [
        verdicts([Trial(condition, "step_time", "seconds", "", group(1.02 * one), group(other))], ALPHA)[0]
        for one, other in zip(new, old, strict=True)
    ]
    failed = [one.outcome == "failed" for one in found]
    assert float(np.mean(failed)) <= ALPHA + binomial(ALPHA)
    known = [one.statistics for one in found if one.statistics]
    assert [one.low > 0.02 for one in known] == failed
    assert {round(one.visible, 6) for one in known} == {0.05}
    stated = float(np.mean([one.power for one in known]))
    assert stated == pytest.approx(alarms(1.05 * new, old, 0.02), abs=0.05)


def test_the_stated_number_of_repetitions_is_enough() -> None:
    random = np.random.default_rng(19)
    number = welch.repetitions(math.log(1.05 / 1.02), SPREAD**2, ALPHA, 0.8)
    assert number == 7
    for count, least, most in ((number, 0.8, 0.9), (number - 1, 0.7, 0.8)):
        new, old = lognormal(random, (DRAWS, count)), lognormal(random, (DRAWS, count))
        assert least - binomial(0.8) <= alarms(1.05 * new, old, 0.02) <= most + binomial(0.8)
    assert welch.repetitions(0.001, SPREAD**2, ALPHA, 0.8) is None


def test_several_conditions_raise_a_false_alarm_no_more_often_than_one() -> None:
    """Three values of the same attempts, two of which are correlated."""
    random = np.random.default_rng(23)
    shared = random.normal(0, SPREAD, (2, DRAWS, 5))
    ps = []
    for own in (0.0, 0.005, SPREAD):
        new, old = (0 if own == SPREAD else shared) + random.normal(0, own, (2, DRAWS, 5))
        variances = new.var(axis=1, ddof=1), old.var(axis=1, ddof=1)
        ps.append(welch.p_value(new.mean(axis=1) - old.mean(axis=1), variances, (5, 5)))
    family = np.array([adjusted(list(some)) for some in zip(*ps, strict=True)])
    assert (np.array(ps).min(axis=0) <= ALPHA).mean() > ALPHA + binomial(ALPHA)
    assert (family.min(axis=1) <= ALPHA).mean() <= ALPHA + binomial(ALPHA)


@pytest.mark.parametrize("counts", [(6, 6), (2, 9), (3, 4)], ids=str)
def test_it_is_at_least_as_strict_as_welchs_test_and_as_students(counts: tuple[int, int]) -> None:
    random = np.random.default_rng(29)
    for _ in range(50):
        new, old = random.normal(1, 2, counts[0]), random.normal(0, 1, counts[1])
        variances = float(new.var(ddof=1)), float(old.var(ddof=1))
        difference = float(new.mean() - old.mean())
        p = welch.p_value(difference, variances, counts)
        for equal in (False, True):
            theirs = stats.ttest_ind(new, old, equal_var=equal, alternative="greater")
            assert p >= theirs.pvalue - 1e-9 or difference < 0
            low = stats.ttest_ind(new, old, equal_var=equal).confidence_interval(0.9).low
            assert difference - welch.margin(variances, counts, 0.05) <= low + 1e-9


def test_of_many_attempts_it_is_welchs_test() -> None:
    random = np.random.default_rng(31)
    new, old = random.normal(0.3, 2, 200), random.normal(0, 1, 200)
    p = welch.p_value(float(new.mean() - old.mean()), (float(new.var(ddof=1)), float(old.var(ddof=1))), (200, 200))
    assert p == pytest.approx(stats.ttest_ind(new, old, equal_var=False, alternative="greater").pvalue, rel=0.02)


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_the_p_value_is_the_level_of_the_margin(alpha: float) -> None:
    variances, counts = (4e-4, 1e-4), (3, 7)
    margin = welch.margin(variances, counts, alpha)
    assert welch.p_value(margin, variances, counts) == pytest.approx(alpha)
    assert welch.p_value(-margin, variances, counts) == pytest.approx(1 - alpha)


def test_holm() -> None:
    assert adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjusted([0.9, 0.8]) == [1.0, 1.0]
    assert adjusted([]) == []


def test_values_that_never_differ_are_tested_by_how_many_there_are() -> None:
    none = (0.0, 0.0)
    assert welch.p_value(0.01, none, (3, 3)) == pytest.approx(1 / 20)
    assert welch.p_value(0.01, none, (2, 2)) == pytest.approx(1 / 6)
    assert welch.p_value(-0.01, none, (3, 3)) == welch.p_value(0.0, none, (3, 3)) == 1
    assert (welch.power(0.01, none, (3, 3), ALPHA), welch.power(0.01, none, (2, 2), ALPHA)) == (1, 0)
    assert welch.margin(none, (3, 3), ALPHA) == 0
    assert welch.effect_size(0.1, none, (3, 3)) is None
    assert welch.p_value(0.1, (1e-4, 0.0), (3, 3)) < 0.01


def test_two_attempts_that_are_far_apart_have_no_verdict() -> None:
    apart = group(np.array([1.0, 100.0]))
    [found] = verdicts([Trial(Condition.parse("loss>+3%"), "loss", "", "", apart, apart)], 1e-6)
    assert found.statistics is not None
    assert (found.outcome, found.statistics.low, found.statistics.repetitions) == ("passed", -1, None)


def test_effect_sizes() -> None:
    assert welch.effect_size(0.04, (0.0004, 0.0004), (10, 10)) == pytest.approx(2 * (1 - 3 / 71))


def test_commands_start_without_what_takes_long_to_load() -> None:
    slow = {"numpy", "scipy", "cryptography"}
    loaded = f"import sys; import hypergauge.cli; sys.exit(not {slow!r}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0
