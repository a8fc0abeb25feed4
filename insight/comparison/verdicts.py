"""Verdicts on the conditions of a comparison, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Change", "Gate", "Group", "Outcome", "Verdict", "interval"]

Outcome = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True, slots=True)
class Group:
    """The attempts of a row that count, and one figure of each: attempts are what is repeated, not steps or samples.

    Attributes
    ----------
    row
        Its label: ``20/1/1``.
    values
        By the label of each attempt, ``20/1/1@2``.
    """

    row: str
    values: Mapping[str, float]
    mean: float | None
    deviation: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is written to JSON."""
        return {**asdict(self), "n": len(self.values)}


@dataclass(frozen=True, slots=True)
class Change:
    """A relative change of a figure, and what is known of it; changes are shares, 0.03 is 3 % more.

    Attributes
    ----------
    change
        Of the geometric means.
    low, high
        Its confidence interval, see `interval`.
    effect
        The change in standard deviations (Hedges' g, of logarithms); ``None`` where nothing differs.
    p, p_adjusted
        Of the test by itself, and as it counts among all of its gate.
    visible
        The change that `power` is about: 5 %, or twice the threshold (as a factor, its square) where that is more.
    power
        How often attempts of these numbers and this spread would show a change that large.
    repetitions
        How many attempts of each would show it four times out of five; ``None`` where 200 would not.
    """

    change: float
    low: float
    high: float
    effect: float | None
    p: float
    p_adjusted: float
    visible: float
    power: float
    repetitions: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on one condition for one row.

    Attributes
    ----------
    condition, threshold, bound
        As written, and what it means: a relative change, or a bound in `unit`.
    key
        The name of the figure in comparisons; of what they do not show, the one in the condition.
    scope
        The scope that the figure was measured in; empty where it has none.
    old
        ``None`` for a bound.
    reason
        A sentence.
    statistics
        ``None`` for a bound, and where there was nothing to test.
    """

    condition: str
    key: str
    unit: str
    scope: str
    threshold: float | None
    bound: float | None
    new: Group
    old: Group | None
    outcome: Outcome
    reason: str
    statistics: Change | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is written to JSON."""
        return {
            "condition": self.condition,
            "figure": self.key,
            "unit": self.unit,
            "scope": self.scope,
            "threshold": self.threshold,
            "bound": self.bound,
            "row": self.new.row,
            "new": self.new.as_dict(),
            "old": self.old and self.old.as_dict(),
            "outcome": self.outcome,
            "reason": self.reason,
            "statistics": self.statistics and asdict(self.statistics),
        }


@dataclass(frozen=True, slots=True)
class Gate:
    """Verdict on a comparison.

    Attributes
    ----------
    alpha
        How often, at most, there is a false alarm, by any of the tests together.
    tests
        How many tests there were.
    method
        Sentences: which test it is, and what it takes for granted.
    notes
        Sentences on what was compared with what, and what was not.
    """

    verdicts: tuple[Verdict, ...]
    alpha: float
    tests: int
    method: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Return whether one of the conditions holds, or nobody can tell."""
        return any(verdict.outcome != "passed" for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is written to JSON."""
        return {
            "failed": self.failed,
            "alpha": self.alpha,
            "tests": self.tests,
            "method": self.method,
            "notes": self.notes,
            "verdicts": [verdict.as_dict() for verdict in self.verdicts],
        }


def interval(alpha: float) -> str:
    """Return the level of an interval whose nearer end lies beyond a threshold where a one-sided test says so: ``90%``."""
    return f"{100 * (1 - 2 * alpha):g}%"
