"""Regression gate: the conditions of a comparison, tested over the attempts of rows.

An attempt is one value. Its steps and samples are not independent, so they are not repetitions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight.comparison.comparison import Comparison, compare
from hypergauge.insight.comparison.entry import Further
from hypergauge.insight.comparison.verdicts import Gate, Group
from hypergauge.insight.regression.conditions import Condition
from hypergauge.insight.regression.counterparts import Pair, pairs
from hypergauge.insight.regression.run_values import RunValue, check_name, run_values
from hypergauge.insight.regression.trials import Trial, method, verdicts
from hypergauge.sql.queries.notices import Reason, verdict_texts
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["gated"]

Rows = Mapping[str, Sequence[RunInfo]]
Values = Mapping[str, Mapping[str, RunValue]]


def gated(
    connection: Connection, selectors: Sequence[str], conditions: Sequence[Condition], *, baseline: str | None = None,
    alpha: float = 0.05, scope: str | None = None, simulated: bool = False, align: str | None = None,
    further: Sequence[Further] = (),
) -> Comparison:  # fmt: skip
    """Compare the attempts of rows with those of a baseline, and test conditions.

    A condition on attempts of which some have no value is not tested: those that survive are no sample of all.

    Parameters
    ----------
    selectors, baseline
        Selectors without an attempt mean all attempts. An attempt in both belongs to the baseline only if that has no other.
    alpha
        Rate of any false alarm among all tests.
    scope, simulated, align, further
        See `hypergauge.insight.comparison.comparison.compare`.

    Raises
    ------
    BadRequest
        A condition has an unknown name or another unit, or a change has no counterpart.
    NoData
        None of the runs has finished.
    """
    if not 0 < alpha <= 0.5:
        raise BadRequest(f"--alpha {alpha:g}: the rate of false alarms is above 0 and at most 0.5, such as 0.05")
    if baseline is None and (changes := [one.text for one in conditions if one.change is not None]):
        raise BadRequest(f"--fail-on {changes[0]!r} is a change, which needs --baseline")
    new, old = _sides(connection, selectors, baseline)
    finished = [run.run_id for row in (*new.values(), *old.values()) for run in row if run.status == "finished"]
    if not finished:
        raise NoData("none of the selected runs has finished")
    found = compare(connection, finished, scope=scope, simulated=simulated, align=align, further=further)
    values = run_values(connection, found)
    for condition in conditions:
        check_name(condition.metric, values)
    matched = list(pairs(new, old))
    if baseline and all(pair.old is None for pair in matched):
        raise BadRequest(f"--baseline {baseline} has no row with the configuration or position of {', '.join(new)}")
    trials = [
        _trial(condition, new[pair.new], None if pair.old is None else old[pair.old], values)
        for pair in matched
        for condition in conditions
        if pair.old is not None or condition.bound is not None
    ]
    tests = sum(trial.is_test for trial in trials)
    decided = verdicts(trials, alpha)
    texts = verdict_texts(connection, [one.facts() for one in decided])
    gate = Gate(
        tuple(replace(one, text=text) for one, text in zip(decided, texts, strict=True)), alpha, tests, tuple(method(tests, alpha)),
        tuple(_unmatched(matched)),
    )  # fmt: skip
    return replace(found, gate=gate)


def _sides(connection: Connection, selectors: Sequence[str], baseline: str | None) -> tuple[Rows, Rows]:
    """Return the new rows and the rows of the baseline, by label."""
    new = select_runs(connection, selectors, every_attempt=True)
    old = select_runs(connection, [baseline], every_attempt=True) if baseline else []
    old = [run for run in old if run not in new] or old
    new = [run for run in new if run not in old]
    if not new:
        raise BadRequest(f"--baseline {baseline} names the attempts to be compared with it")
    return _by_label(new), _by_label(old)


def _by_label(runs: Iterable[RunInfo]) -> dict[str, list[RunInfo]]:
    rows: dict[str, list[RunInfo]] = {}
    for run in runs:
        rows.setdefault(run.label, []).append(run)
    return rows


def _trial(condition: Condition, new: Sequence[RunInfo], old: Sequence[RunInfo] | None, values: Values) -> Trial:
    sides = [new] if old is None or condition.bound is not None else [new, old]
    known = [one for side in sides for run in side if (one := _value(condition, run, values))]
    for one in known[:1]:
        condition.check_unit(one.unit)
        condition.check_sign(one.value for one in known)
    groups = [_group(condition, side, values) for side in sides]
    example = known[0] if known else RunValue(condition.metric, 0.0, "")
    return Trial(
        condition, example.key, example.unit, example.scope, groups[0], groups[1] if len(groups) > 1 else None,
        next(_problems(condition, groups, known), None),
    )  # fmt: skip


def _value(condition: Condition, run: RunInfo, values: Values) -> RunValue | None:
    """Return the value of an attempt; ``None`` without a finite one."""
    value = values.get(run.run_id, {}).get(condition.metric)
    return value if value is not None and math.isfinite(value.value) else None


def _group(condition: Condition, row: Sequence[RunInfo], values: Values) -> Group:
    by_attempt: dict[str, float] = {}
    missing: dict[str, str] = {}
    for run in row:
        label = f"{run.label}@{run.attempt}"
        if value := _value(condition, run, values):
            by_attempt[label] = value.value
        elif run.status != "finished":
            missing[label] = run.status
        else:
            missing[label] = "not_finite" if condition.metric in values.get(run.run_id, {}) else "not_measured"
    numbers = list(by_attempt.values())
    return Group(
        row[0].label,
        by_attempt,
        statistics.fmean(numbers) if numbers else None,
        statistics.stdev(numbers) if len(numbers) > 1 else None,
        missing,
    )


def _problems(condition: Condition, groups: Sequence[Group], known: Sequence[RunValue]) -> Iterator[Reason]:
    """Yield the reasons for a verdict without a test, the gravest first."""
    about = {"metric": condition.metric}
    if diverged := [attempt for attempt, why in groups[0].missing.items() if why == "not_finite"]:
        yield Reason("not_finite", {**about, "attempts": diverged})
    if without := [group.row for group in groups if not group.values and "not_finite" not in group.missing.values()]:
        yield Reason("not_measured", {**about, "rows": without})
    if missing := {attempt: why for group in groups for attempt, why in group.missing.items()}:
        yield Reason("attempts_missing", {**about, "attempts": list(missing), "causes": list(missing.values())})
    if condition.bound is None:
        if any(one.value <= 0 for one in known):
            yield Reason("not_positive", about)
        if len({one.idle for one in known}) > 1:
            yield Reason("idle_energy_differs", about)
        if len({one.divided for one in known}) > 1:
            yield Reason("divided_energy_differs", about)
    if len(scopes := sorted({one.scope for one in known})) > 1:
        yield Reason("scopes_differ", {**about, "scopes": scopes})


def _unmatched(matched: Iterable[Pair]) -> Iterator[str]:
    for pair in matched:
        if pair.by == "position":
            yield f"{pair.new} is compared with {pair.old}: same position, another configuration"
        elif pair.old is None and any(other.old is not None for other in matched):
            yield f"{pair.new} has no counterpart: no row of the baseline has its configuration or position"
