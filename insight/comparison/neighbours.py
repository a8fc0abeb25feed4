"""Notes on runs whose neighbours changed in the middle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from hypergauge.insight.comparison.comparison import Comparison
from hypergauge.sql.queries.neighbours import NeighbourChange, neighbour_changes
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Changes", "footnotes", "marked", "of_comparison"]

Changes = Mapping[str, Sequence[NeighbourChange]]

# A workload of many runs would otherwise be a page of footnotes.
_MOST_CHANGES = 4
_MOST_RUNS = 12


def of_comparison(connection: Connection, comparison: Comparison) -> Changes:
    """Return what changed beside the runs of a comparison while they went through what is compared, by run id."""
    runs = {run.run_id: run for entry in comparison.entries for run in entry.runs}
    found = neighbour_changes(connection, list(runs))
    return {run: [one for one in some if _compared(comparison, runs[run], one)] for run, some in found.items()}


def _compared(comparison: Comparison, run: RunInfo, change: NeighbourChange) -> bool:
    stretch = comparison.window.stretches.get(run.run_id) if comparison.window else None
    if stretch is None or run.started_at is None:
        return True
    return stretch.started_at < run.started_at + timedelta(seconds=change.at) < stretch.ended_at


def marked(content: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """Return a comparison of runs in JSON with ``neighbours_changed`` at each run; one of workloads stays as it is."""
    runs = [
        {**run, "neighbours_changed": [_as_dict(change) for change in changes.get(run["run_id"], ())]}
        for run in content.get("runs", ())
    ]
    return {**content, "runs": runs} if runs else content


def footnotes(comparison: Comparison, changes: Changes) -> Iterator[str]:
    """Yield a line for each run whose neighbours changed; of many only the first."""
    changed = [
        (entry.label if comparison.by == "run" else run.label, found)
        for entry in comparison.entries
        for run in entry.runs
        if (found := changes.get(run.run_id, ()))
    ]
    for label, found in changed[:_MOST_RUNS]:
        more = len(found) - _MOST_CHANGES
        words = ", ".join(map(_words, found[:_MOST_CHANGES])) + (f" and {more} times more" if more > 0 else "")
        yield f"{label}: neighbours changed after {words}"
    if len(changed) > _MOST_RUNS:
        yield f"… and so they did for {len(changed) - _MOST_RUNS} more runs, see --json"


def _as_dict(change: NeighbourChange) -> dict[str, Any]:
    ended = {} if change.status is None else {"status": change.status}
    return {"at": round(change.at, 3), "run": change.run, "what": change.what, **ended}


def _words(change: NeighbourChange) -> str:
    how = f", {change.status}" if change.status else ""
    return f"{change.at:.1f} s ({change.run} {change.what}{how})"
