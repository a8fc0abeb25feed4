"""Runs whose neighbours changed in the middle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from hypergauge.insight.comparison.comparison import Comparison
from hypergauge.sql.queries.neighbours import NeighbourChange, neighbour_changes
from hypergauge.sql.queries.notices import Fact
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Changes", "facts", "marked", "of_comparison"]

Changes = Mapping[str, Sequence[NeighbourChange]]

# Limit for workloads of many runs.
_MOST_RUNS = 12


def of_comparison(connection: Connection, comparison: Comparison) -> Changes:
    """Return the changes of neighbours during the compared part of each run, by run id."""
    runs = {run.run_id: run for entry in comparison.entries for run in entry.runs}
    found = neighbour_changes(connection, list(runs))
    return {run: [one for one in some if _compared(comparison, runs[run], one)] for run, some in found.items()}


def _compared(comparison: Comparison, run: RunInfo, change: NeighbourChange) -> bool:
    interval = comparison.window.intervals.get(run.run_id) if comparison.window else None
    if interval is None or run.started_at is None:
        return True
    return interval.started_at < run.started_at + timedelta(seconds=change.at) < interval.ended_at


def marked(content: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """Return the JSON object with ``neighbours_changed`` for each run; that of a comparison of workloads is unchanged."""
    runs = [
        {**run, "neighbours_changed": [_as_dict(change) for change in changes.get(run["run_id"], ())]}
        for run in content.get("runs", ())
    ]
    return {**content, "runs": runs} if runs else content


def facts(comparison: Comparison, changes: Changes) -> Iterator[Fact]:
    """Yield a fact for each of the first runs whose neighbours changed, and one fact for all further runs."""
    changed = [
        (entry.label if comparison.by == "run" else run.label, found)
        for entry in comparison.entries
        for run in entry.runs
        if (found := changes.get(run.run_id, ()))
    ]
    for label, found in changed[:_MOST_RUNS]:
        yield Fact("neighbours_changed", [label], {"changes": [_as_dict(change) for change in found]})
    if more := [label for label, _ in changed[_MOST_RUNS:]]:
        yield Fact("more_neighbours_changed", more)


def _as_dict(change: NeighbourChange) -> dict[str, Any]:
    ended = {} if change.status is None else {"status": change.status}
    return {"at": round(change.at, 3), "run": change.run, "what": change.what, **ended}
