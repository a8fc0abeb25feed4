"""Replay of rules on past runs, also with other parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypergauge.insight import rules
from hypergauge.insight.rules.rule import Firing, Rule, RuleFailed, Value
from hypergauge.sql.runs import firings
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Evaluated", "Swept", "replay", "store", "sweep"]

Values = Mapping[str, Value]

# Number of runs from which on the time of planning each rule anew for each run would dominate.
_MANY = 5


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Finding of a rule in a run, or the reason why it could not be evaluated."""

    run: RunInfo
    rule: Rule
    firings: Sequence[Firing]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """Result of a rule with another value of one parameter.

    Attributes
    ----------
    fired, runs
        Number of runs with a firing, and of evaluated runs.
    seconds
        Total duration of the firings.
    failures
        Number of runs whose evaluation failed.
    """

    value: Value
    fired: int
    runs: int
    seconds: float
    failures: int


def replay(
    connection: Connection, chosen: Sequence[tuple[Rule, Values]], runs: Sequence[RunInfo], limit: timedelta
) -> Iterator[Evaluated]:
    """Yield the result of each rule for each started run, run by run; a running one counts until now.

    With many runs, the database plans each rule once. A transaction lasts for one run.
    """
    inputs = firings.inputs(connection, [run.run_id for run in runs])
    with firings.Evaluations(connection, limit, repeated=len(runs) >= _MANY) as evaluations:
        for run in runs:
            for rule, values in chosen:
                if run.started_at is not None:
                    yield (
                        _evaluate(evaluations, rule, values, run, run.started_at, limit)
                        if rule.can_fire(inputs[run.run_id])
                        else Evaluated(run, rule, ())
                    )
            evaluations.end()


def store(connection: Connection, evaluated: Iterable[Evaluated]) -> None:
    """Store the findings of started runs in place of earlier ones; what could not be evaluated changes nothing."""
    for one in evaluated:
        if one.failure is None and one.run.started_at is not None:
            stop = one.run.ended_at or datetime.now(UTC)
            firings.store(connection, one.run.run_id, one.rule.name, one.firings, start=one.run.started_at, stop=stop)


def sweep(
    connection: Connection, rule: Rule, values: Values, parameter: str, others: Sequence[Value], runs: Sequence[RunInfo],
    limit: timedelta,
) -> Iterator[Swept]:  # fmt: skip
    """Yield the result of a rule for each of some values of a parameter."""
    for value in others:
        evaluated = list(replay(connection, [(rule, {**values, parameter: value})], runs, limit))
        succeeded = [one for one in evaluated if one.failure is None]
        yield Swept(
            value=value,
            fired=sum(bool(one.firings) for one in succeeded),
            runs=len(succeeded),
            seconds=sum(_seconds(firing) for one in succeeded for firing in one.firings),
            failures=len(evaluated) - len(succeeded),
        )


def _evaluate(
    evaluations: firings.Evaluations, rule: Rule, values: Values, run: RunInfo, started_at: datetime, limit: timedelta
) -> Evaluated:
    stop = run.ended_at or datetime.now(UTC)
    try:
        found = rules.evaluate(evaluations, rule, values, run.run_id, started_at, stop, limit)
    except RuleFailed as error:
        return Evaluated(run, rule, (), str(error))
    # A firing without an end ends with the run.
    return Evaluated(run, rule, [replace(one, ended_at=one.ended_at or run.ended_at) for one in found])


def _seconds(firing: Firing) -> float:
    return ((firing.ended_at or datetime.now(UTC)) - firing.started_at).total_seconds()
