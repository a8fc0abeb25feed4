"""Verdicts on the conditions of a comparison, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hypergauge.sql.queries.notices import Reason

__all__ = ["Change", "Gate", "Group", "Outcome", "Verdict", "interval"]

Outcome = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True, slots=True)
class Group:
    """The attempts of a row with one value each: attempts are repetitions, steps and samples are not.

    Attributes
    ----------
    row
        Label: ``20/1/1``.
    values
        By the label of each attempt, ``20/1/1@2``.
    missing
        Reason by the label of each attempt without a value: ``not_finite``, ``not_measured``, or the status of one that has
        not finished.
    """

    row: str
    values: Mapping[str, float]
    mean: float | None
    deviation: float | None
    missing: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {**asdict(self), "n": len(self.values)}


@dataclass(frozen=True, slots=True)
class Change:
    """A relative change with its statistics; 0.03 is 3 % more.

    Attributes
    ----------
    change
        Of the geometric means.
    low, high
        Its confidence interval, see `interval`.
    effect
        The change in standard deviations (Hedges' g, of logarithms); ``None`` without variance.
    p, p_adjusted
        P-value of the test, and adjusted for all tests of the gate.
    visible
        The change for `power`: 5 %, or twice the threshold (its square as a factor) if that is more.
    power
        Probability that as many attempts with this variance show such a change.
    repetitions
        Attempts each for a power of 80 %; ``None`` if 200 are too few.
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
        The condition as written; its relative change or its bound in `unit`.
    key
        Column of comparisons, else the name in the condition.
    scope
        Scope of the measurement, if any.
    old
        ``None`` for a bound.
    reason
        Code of ``verdict_text``, with the values that are no statistics.
    text
        Sentence for display.
    statistics
        ``None`` for a bound, and without a test.
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
    reason: Reason
    statistics: Change | None = None
    text: str = ""

    def facts(self) -> dict[str, Any]:
        """Return the values of ``verdict_text``."""
        return {"row": self.new.row, **self.reason.as_dict(), **(asdict(self.statistics) if self.statistics else {})}

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "condition": self.condition,
            "metric": self.key,
            "unit": self.unit,
            "scope": self.scope,
            "threshold": self.threshold,
            "bound": self.bound,
            "row": self.new.row,
            "new": self.new.as_dict(),
            "old": self.old and self.old.as_dict(),
            "outcome": self.outcome,
            "reason": self.reason.code,
            "values": self.reason.values,
            "text": self.text,
            "statistics": self.statistics and asdict(self.statistics),
        }


@dataclass(frozen=True, slots=True)
class Gate:
    """Verdict on a comparison.

    Attributes
    ----------
    alpha
        Largest rate of any false alarm among all tests.
    tests
        Number of tests.
    method
        Sentences on the test and its assumptions.
    notes
        Sentences on counterparts.
    """

    verdicts: tuple[Verdict, ...]
    alpha: float
    tests: int
    method: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Return whether a condition failed or is undecided."""
        return any(verdict.outcome != "passed" for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "failed": self.failed,
            "alpha": self.alpha,
            "tests": self.tests,
            "method": self.method,
            "notes": self.notes,
            "verdicts": [verdict.as_dict() for verdict in self.verdicts],
        }


def interval(alpha: float) -> str:
    """Return the level of the two-sided interval that matches a one-sided test: ``90%``."""
    return f"{100 * (1 - 2 * alpha):g}%"
