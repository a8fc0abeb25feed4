"""Trials of conditions over attempts, and the joint verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hypergauge.insight.comparison.verdicts import Change, Group, Outcome, Verdict
from hypergauge.insight.regression import welch
from hypergauge.insight.regression.conditions import Condition
from hypergauge.sql.queries.notices import Reason

__all__ = ["Trial", "adjusted", "method", "verdicts"]

# Change that a test should detect, and its power.
_VISIBLE = 0.05
_POWER = 0.8
# Assumed relative deviation of attempts if it is unknown.
_SPREAD = 0.02
# Logarithm of 10 to the 300th, which counts as infinity.
_MOST = 690.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A condition and its attempts; see `hypergauge.insight.comparison.verdicts.Verdict`.

    Attributes
    ----------
    old
        ``None`` for a bound.
    problem
        Reason for the verdict without a test, if known beforehand.
    """

    condition: Condition
    key: str
    unit: str
    scope: str
    new: Group
    old: Group | None
    problem: Reason | None = None

    @property
    def is_test(self) -> bool:
        """Return whether there are enough attempts for a test."""
        return self.old is not None and not self.problem and min(len(self.new.values), len(self.old.values)) > 1


def verdicts(trials: Sequence[Trial], alpha: float) -> list[Verdict]:
    """Return the verdicts on trials in order; `alpha` is the rate of any false alarm among tests."""
    tests = [_Test.of(trial) for trial in trials if trial.is_test]
    strictest = alpha / max(1, len(tests))
    changes = iter(
        [test.change(p, alpha, strictest) for test, p in zip(tests, adjusted([test.p for test in tests]), strict=True)]
    )
    return [
        _tested(trial, next(changes), alpha) if trial.is_test else _not_tested(trial, strictest) for trial in trials
    ]


def adjusted(found: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values of a family of tests."""
    order = np.argsort(found)
    steps = np.minimum(1.0, np.asarray(found)[order] * np.arange(len(found), 0, -1))
    result = np.empty(len(found))
    result[order] = np.maximum.accumulate(steps)
    return [float(p) for p in result]


def method(tests: int, alpha: float) -> Iterator[str]:
    """Yield the description of the method for a number of tests."""
    if tests:
        yield (
            "Welch's statistic of the logarithms of the attempts' values, one-sided; H0: the change is not beyond the threshold. Its "
            "critical value is between Welch's and that of Cochran and Cox, for spreads that differ; Student's t has to agree."
        )
        yield ("Attempts are assumed to be independent, with roughly normal logarithms. Each attempt counts once.")
        rate = f"{alpha:.3g}"
        yield (
            f"Among {tests} tests at once, Holm's method keeps the rate of any false alarm at {rate}."
            if tests > 1
            else f"The rate of false alarms is {rate} at most."
        )


@dataclass(frozen=True, slots=True)
class _Test:
    """Estimate of a change in logarithms; a change for the worse is above 0."""

    sign: int
    threshold: float
    difference: float
    variances: tuple[float, float]
    counts: tuple[int, int]

    @classmethod
    def of(cls, trial: Trial) -> _Test:
        assert trial.old is not None
        sign = 1 if trial.condition.rises else -1
        logs = [[math.log(value) for value in group.values.values()] for group in (trial.new, trial.old)]
        new, old = (statistics.fmean(some) for some in logs)
        # Equal values have no variance; their mean may differ by rounding.
        variances = tuple(statistics.variance(some) if min(some) < max(some) else 0.0 for some in logs)
        return cls(
            sign, _threshold(trial.condition), sign * (new - old), (variances[0], variances[1]), (len(logs[0]), len(logs[1]))
        )  # fmt: skip

    @property
    def p(self) -> float:
        return welch.p_value(self.difference - self.threshold, self.variances, self.counts)

    def change(self, p_adjusted: float, alpha: float, strictest: float) -> Change:
        margin = welch.margin(self.variances, self.counts, alpha)
        ends = sorted(self._share(self.difference + side * margin) for side in (-1, 1))
        visible = _visible(self.sign, self.threshold)
        freedoms = [count - 1 for count in self.counts]
        pooled = sum(f * variance for f, variance in zip(freedoms, self.variances, strict=True)) / sum(freedoms)
        effect = welch.effect_size(self.difference, self.variances, self.counts)
        return Change(
            change=self._share(self.difference), low=ends[0], high=ends[1],
            effect=effect if effect is None else self.sign * effect, p=self.p, p_adjusted=p_adjusted,
            visible=self._share(visible),
            power=welch.power(visible - self.threshold, self.variances, self.counts, strictest),
            repetitions=welch.repetitions(visible - self.threshold, pooled, strictest, _POWER),
        )  # fmt: skip

    def _share(self, turned: float) -> float:
        return math.expm1(min(self.sign * turned, _MOST))


def _threshold(condition: Condition) -> float:
    assert condition.change is not None
    return (1 if condition.rises else -1) * math.log1p(condition.change)


def _visible(sign: int, threshold: float) -> float:
    """Return the change for the power, which exceeds the threshold."""
    return max(abs(math.log1p(sign * _VISIBLE)), 2 * threshold)


def _tested(trial: Trial, found: Change, alpha: float) -> Verdict:
    shown = found.p_adjusted <= alpha
    values = {"threshold": trial.condition.change, "alpha": alpha, "wanted_power": _POWER}
    reason = _reason(trial, "change_shown" if shown else "change_not_shown", values)
    return _verdict(trial, "failed" if shown else "passed", reason, found)


def _not_tested(trial: Trial, strictest: float) -> Verdict:
    if trial.problem:
        # A diverged attempt keeps no limit; for all else there is no evidence.
        return _verdict(trial, "failed" if trial.problem.code == "not_finite" else "undecided", trial.problem)
    if trial.condition.bound is None:
        return _verdict(trial, "undecided", _too_few(trial, strictest))
    mean = trial.new.mean
    assert mean is not None
    beyond = mean > trial.condition.bound if trial.condition.rises else mean < trial.condition.bound
    code = "bound_exceeded" if beyond else "bound_kept"
    return _verdict(trial, "failed" if beyond else "passed", _reason(trial, code, {"attempts": len(trial.new.values)}))


def _too_few(trial: Trial, strictest: float) -> Reason:
    assert trial.old is not None
    logs = [[math.log(value) for value in group.values.values()] for group in (trial.new, trial.old)]
    known = [statistics.stdev(some) for some in logs if len(some) > 1]
    spread = max(known, default=_SPREAD)
    sign, threshold = 1 if trial.condition.rises else -1, _threshold(trial.condition)
    visible = _visible(sign, threshold)
    values = {
        "rows": [group.row for group in (trial.new, trial.old) if len(group.values) == 1],
        "measured": bool(known),
        "repetitions": welch.repetitions(visible - threshold, spread**2, strictest, _POWER),
        "visible": math.expm1(sign * visible),
        "wanted_power": _POWER,
    }
    return _reason(trial, "one_attempt", values)


def _reason(trial: Trial, code: str, values: Mapping[str, Any]) -> Reason:
    side = "above" if trial.condition.rises else "below"
    return Reason(code, {"metric": trial.condition.metric, "scope": trial.scope, "side": side, **values})


def _verdict(trial: Trial, outcome: Outcome, reason: Reason, found: Change | None = None) -> Verdict:
    condition = trial.condition
    return Verdict(
        condition.text, trial.key, trial.unit, trial.scope, condition.change, condition.bound, trial.new, trial.old, outcome,
        reason, found,
    )  # fmt: skip
