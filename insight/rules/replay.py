"""Replay of rules on past runs, also with other parameters."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypergauge.insight import rules
from hypergauge.insight.rules.rule import Firing, Rule, RuleFailed, Value
from hypergauge.sql.runs import firings
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.connections import Connections
from hypergauge.sql.server.database import Connection

__all__ = ["Evaluated", "Swept", "replay", "store", "sweep"]

Values = Mapping[str, Value]

# Number of runs from which on the time of planning each rule anew for each run would dominate.
_MANY = 5
# Other users of the database keep theirs.
_MOST_CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Finding of a rule in a run, or the reason why it could not be evaluated.

    Attributes
    ----------
    seconds
        Duration of the evaluation.
    """

    run: RunInfo
    rule: Rule
    firings: Sequence[Firing]
    failure: str | None = None
    seconds: float = 0.0


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

    With many runs, the database plans each rule once, and several connections share the runs. A transaction lasts for
    one run.
    """
    inputs = firings.inputs(connection, [run.run_id for run in runs])
    started = [run for run in runs if run.started_at is not None]
    if len(started) < _MANY:
        with firings.Evaluations(connection, limit) as evaluations:
            for run in started:
                yield from _evaluate_all(evaluations, chosen, run, inputs[run.run_id], limit)
                evaluations.end()
        return
    with Connections.like(connection, min(_cores(), _MOST_CONNECTIONS)) as connections:

        def evaluate(mine: Connection, run: RunInfo) -> list[Evaluated]:
            with firings.Evaluations(mine, limit, repeated=True) as evaluations:
                return list(_evaluate_all(evaluations, chosen, run, inputs[run.run_id], limit, connections.stopped))

        with closing(connections.map(evaluate, started)) as results:
            for evaluated in results:
                yield from evaluated


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


def _evaluate_all(
    evaluations: firings.Evaluations, chosen: Sequence[tuple[Rule, Values]], run: RunInfo, inputs: Set[str], limit: timedelta,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Evaluated]:  # fmt: skip
    for rule, values in chosen:
        if stopped():
            return
        yield _evaluate(evaluations, rule, values, run, limit) if rule.can_fire(inputs) else Evaluated(run, rule, ())


def _evaluate(
    evaluations: firings.Evaluations, rule: Rule, values: Values, run: RunInfo, limit: timedelta
) -> Evaluated:
    assert run.started_at is not None
    stop = run.ended_at or datetime.now(UTC)
    began = time.perf_counter()
    try:
        found = rules.evaluate(evaluations, rule, values, run.run_id, run.started_at, stop, limit)
    except RuleFailed as error:
        return Evaluated(run, rule, (), str(error), time.perf_counter() - began)
    # A firing without an end ends with the run.
    ended = [replace(one, ended_at=one.ended_at or run.ended_at) for one in found]
    return Evaluated(run, rule, ended, seconds=time.perf_counter() - began)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _seconds(firing: Firing) -> float:
    return ((firing.ended_at or datetime.now(UTC)) - firing.started_at).total_seconds()
