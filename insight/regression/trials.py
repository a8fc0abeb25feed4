"""Trials of conditions over attempts, and the joint verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hypergauge.insight.comparison.verdicts import Change, Group, Outcome, Verdict, interval
from hypergauge.insight.regression import welch
from hypergauge.insight.regression.conditions import Condition

__all__ = ["Trial", "adjusted", "method", "verdicts"]

# Change that a test should detect, and its power.
_VISIBLE = 0.05
_POWER = 0.8
# Assumed relative deviation of attempts if it is unknown.
_SPREAD = 0.02
# Logarithm of 10 to the 300th, which counts as infinity.
_MOST = 690.0
_WHOSE = {"device": " of the whole GPU", "host": " of the host"}


@dataclass(frozen=True, slots=True)
class Trial:
    """A condition and its attempts; see `hypergauge.insight.comparison.verdicts.Verdict`.

    Attributes
    ----------
    old
        ``None`` for a bound.
    problem
        Reason why nothing can be concluded, if known beforehand.
    """

    condition: Condition
    key: str
    unit: str
    scope: str
    new: Group
    old: Group | None
    problem: str = ""

    @property
    def metric(self) -> str:
        """Name of the value, with the scope if it exceeds the run."""
        return self.condition.metric + _WHOSE.get(self.scope, "")

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
            "Welch's t of the logarithms of the attempts' values, one-sided; H0: the change is not beyond the threshold. Where one side "
            "has more attempts than the other, Student's t has to agree."
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
    changed = (
        f"{trial.metric} changed by {found.change:+.1%} ({interval(alpha)} interval "
        f"{found.low:+.1%} to {found.high:+.1%})"
    )
    if found.p_adjusted <= alpha:
        return _verdict(trial, "failed", f"{changed}, {_threshold_words(trial)}: {_p_words(found.p_adjusted)}", found)
    enough = f"{found.repetitions} attempts" if found.repetitions else "more than 200 attempts"
    weak = "" if found.power >= _POWER else f"; a power of {_POWER:.0%} takes {enough} each"
    reason = (
        f"{changed}, not shown to be {_threshold_words(trial)}: {_p_words(found.p_adjusted)}; "
        f"the power for {found.visible:+.1%} is {found.power:.0%}{weak}"
    )
    return _verdict(trial, "passed", reason, found)


def _not_tested(trial: Trial, strictest: float) -> Verdict:
    if trial.problem:
        return _verdict(trial, "undecided", trial.problem)
    if trial.condition.bound is None:
        return _verdict(trial, "undecided", _too_few(trial, strictest))
    mean = trial.new.mean
    assert mean is not None
    beyond = mean > trial.condition.bound if trial.condition.rises else mean < trial.condition.bound
    number = len(trial.new.values)
    metric = f"{trial.metric} of its attempt" if number == 1 else f"the mean {trial.metric} of its {number} attempts"
    where = f"{'' if beyond else 'not '}{'above' if trial.condition.rises else 'below'} the bound"
    return _verdict(trial, "failed" if beyond else "passed", f"{metric} is {where}")


def _too_few(trial: Trial, strictest: float) -> str:
    assert trial.old is not None
    logs = [[math.log(value) for value in group.values.values()] for group in (trial.new, trial.old)]
    known = [statistics.stdev(some) for some in logs if len(some) > 1]
    spread = max(known, default=_SPREAD)
    sign, threshold = 1 if trial.condition.rises else -1, _threshold(trial.condition)
    visible = _visible(sign, threshold)
    number = welch.repetitions(visible - threshold, spread**2, strictest, _POWER)
    enough = f"{number} attempts each" if number else "more than 200 attempts each"
    alone = " and ".join(group.row for group in (trial.new, trial.old) if len(group.values) == 1)
    source = "measured" if known else "of 2% assumed"
    return (
        f"nothing can be concluded on {trial.metric} from one attempt of {alone}: with the deviation {source}, {enough} "
        f"show {math.expm1(sign * visible):+.1%} with a power of {_POWER:.0%} (bench schedule --repeat {number or 'N'})"
    )


def _verdict(trial: Trial, outcome: Outcome, reason: str, found: Change | None = None) -> Verdict:
    condition = trial.condition
    return Verdict(
        condition.text, trial.key, trial.unit, trial.scope, condition.change, condition.bound, trial.new, trial.old, outcome,
        f"{trial.new.row}: {reason}", found,
    )  # fmt: skip


def _threshold_words(trial: Trial) -> str:
    assert trial.condition.change is not None
    return f"{'above' if trial.condition.rises else 'below'} {100 * trial.condition.change:+g}%"


def _p_words(p: float) -> str:
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"
