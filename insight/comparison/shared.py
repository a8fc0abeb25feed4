"""Shared hosts and GPUs: a sum over runs counts each moment of a device once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hypergauge.insight.comparison.columns import COLUMNS
from hypergauge.insight.comparison.entry import Entry, Missing, Span
from hypergauge.sql.queries.charts.axes import Interval, without_raw_samples
from hypergauge.sql.queries.notices import Reason
from hypergauge.sql.queries.summaries import gpus, summaries_between
from hypergauge.sql.server.database import Connection

__all__ = ["SHARED_SCOPES", "parts"]

# In these scopes a value is that of a device or host, and repeated for each run on it.
SHARED_SCOPES = ("device", "host")
_AMOUNTS = tuple(column for column in COLUMNS if column.over == "sum")


def parts(connection: Connection, entries: Sequence[Entry], scope: str) -> list[Entry]:
    """Return runs with the amounts that each adds to those of its workload.

    A run with all devices of another one, or with the same devices and an earlier start, adds its whole amount. The other
    run adds the amount of the remaining time, from raw samples. Amounts are missing where a run shares only some of its
    GPUs with another, or where the samples are deleted.

    Parameters
    ----------
    entries
        Entries of runs, with values of one `scope` of `SHARED_SCOPES`.
    """
    things = _things(connection, entries, scope)
    spans = {_id(entry): entry.span for entry in entries}
    counted: dict[str, tuple[Span, ...]] = {}
    reasons: dict[str, Reason] = {}
    for workload in _workloads(entries):
        for run, (left, reason) in _counted_spans(workload, things, spans).items():
            counted[run] = left
            if reason:
                reasons[run] = reason
    cut = [run for run in counted if counted[run] != (spans[run],)]
    reasons |= dict.fromkeys(without_raw_samples(connection, cut), Reason("raw_samples_deleted"))
    totals = _totals(connection, {run: counted[run] for run in cut if run not in reasons}, scope)
    return [
        _part(entry, counted[run], totals, reasons.get(run)) if (run := _id(entry)) in {*cut, *reasons} else entry
        for entry in entries
    ]


def _things(connection: Connection, entries: Sequence[Entry], scope: str) -> Mapping[str, frozenset[str]]:
    if scope == "host":
        return {run.run_id: frozenset({run.host}) for entry in entries for run in entry.runs}
    return gpus(connection, [_id(entry) for entry in entries])


def _workloads(entries: Iterable[Entry]) -> Iterable[list[Entry]]:
    found: dict[tuple[int, int], list[Entry]] = {}
    for entry in entries:
        [run] = entry.runs
        found.setdefault((run.experiment_id, run.workload), []).append(entry)
    return found.values()


def _counted_spans(
    workload: Iterable[Entry], things: Mapping[str, frozenset[str]], spans: Mapping[str, Span]
) -> dict[str, tuple[tuple[Span, ...], Reason | None]]:
    """Return the times that count for each run, and the reason for which they are unknown, if any."""
    counted: dict[str, tuple[tuple[Span, ...], Reason | None]] = {}
    before: list[Entry] = []
    for entry in sorted(workload, key=lambda one: (-len(things[_id(one)]), spans[_id(one)])):
        mine, span, reason = things[_id(entry)], spans[_id(entry)], None
        left = [span]
        for other in before:
            theirs, taken = things[_id(other)], spans[_id(other)]
            if not mine & theirs or not _overlap(span, taken):
                continue
            if mine <= theirs:
                left = list(_without(left, taken))
            else:
                reason = Reason("gpus_shared_in_part", {"other": other.label})
        counted[_id(entry)] = tuple(left), reason
        before.append(entry)
    return counted


def _totals(
    connection: Connection, counted: Mapping[str, Iterable[Span]], scope: str
) -> Mapping[tuple[str, str], float]:
    """Return the totals of these times, by run and quantity."""
    intervals = [Interval(run, 0.0, 0.0, start, end, None) for run, spans in counted.items() for start, end in spans]
    quantities = [*(column.quantity for column in _AMOUNTS), "gpu_power"]
    found: dict[tuple[str, str], float] = {}
    for one in summaries_between(connection, intervals, quantities):
        if one.scope == scope:
            key = one.run_id, one.quantity
            found[key] = found.get(key, 0.0) + (one.total or 0.0)
    return found


def _part(
    entry: Entry, counted: tuple[Span, ...], totals: Mapping[tuple[str, str], float], reason: Reason | None
) -> Entry:
    amounts = {
        column.key: column.quantity if column.quantity in entry.quantities else "gpu_power"
        for column in _AMOUNTS
        if column.key in entry.values
    }
    others = {key: value for key, value in entry.values.items() if key not in amounts}
    if reason:
        missing = (Missing(key, entry.label, reason) for key in amounts)
        return replace(entry, values=others, missing=(*entry.missing, *missing))
    added = {key: totals.get((_id(entry), quantity), 0.0) for key, quantity in amounts.items()}
    return replace(entry, values={**others, **added}, counted_times=counted)


def _id(entry: Entry) -> str:
    [run] = entry.runs
    return run.run_id


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _without(spans: Iterable[Span], taken: Span) -> Iterator[Span]:
    for start, end in spans:
        if start < min(end, taken[0]):
            yield start, min(end, taken[0])
        if max(start, taken[1]) < end:
            yield max(start, taken[1]), end
