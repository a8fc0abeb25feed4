"""Replay of rules on past runs, also with other parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypergauge.insight import rules
from hypergauge.insight.rules.rule import Firing, Rule, RuleFailed, Value
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Judged", "Swept", "replay", "sweep"]

Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Judged:
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
        On how many runs it fires, of how many that it was asked about.
    seconds
        For how long it holds in all of them.
    failures
        How many runs it could not be asked about.
    """

    value: Value
    fired: int
    runs: int
    seconds: float
    failures: int


def replay(
    connection: Connection, chosen: Sequence[tuple[Rule, Values]], runs: Sequence[RunInfo], limit: timedelta
) -> Iterator[Judged]:
    """Yield what each rule finds in each of the runs that have started, run by run; one that goes on, until now."""
    for run in runs:
        for rule, values in chosen:
            if run.started_at is not None:
                yield _judge(connection, rule, values, run, run.started_at, limit)


def sweep(
    connection: Connection, rule: Rule, values: Values, parameter: str, others: Sequence[Value], runs: Sequence[RunInfo],
    limit: timedelta,
) -> Iterator[Swept]:  # fmt: skip
    """Yield how a rule fares on the runs with each of some other values of a parameter."""
    for value in others:
        judged = list(replay(connection, [(rule, {**values, parameter: value})], runs, limit))
        asked = [one for one in judged if one.failure is None]
        yield Swept(
            value=value,
            fired=sum(bool(one.firings) for one in asked),
            runs=len(asked),
            seconds=sum(_seconds(firing) for one in asked for firing in one.firings),
            failures=len(judged) - len(asked),
        )


def _judge(
    connection: Connection, rule: Rule, values: Values, run: RunInfo, started_at: datetime, limit: timedelta
) -> Judged:
    stop = run.ended_at or datetime.now(UTC)
    try:
        found = rules.evaluate(connection, rule, values, run.run_id, started_at, stop, limit)
    except RuleFailed as error:
        return Judged(run, rule, (), str(error))
    # What still held when the run ended has ended with it.
    return Judged(run, rule, [replace(one, ended_at=one.ended_at or run.ended_at) for one in found])


def _seconds(firing: Firing) -> float:
    return ((firing.ended_at or datetime.now(UTC)) - firing.started_at).total_seconds()
