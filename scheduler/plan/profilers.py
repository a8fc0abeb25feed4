"""Notes on the profilers of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypergauge.scheduler import profilers
from hypergauge.scheduler.plan.plan import Action, PlannedWorkload

__all__ = ["profiler_notes"]


def profiler_notes(workloads: Sequence[PlannedWorkload]) -> Iterator[str]:
    """Yield a line about each workload whose profilers give less on this host than their options name."""
    for one in workloads:
        rows = [run.row for run in one.runs if run.action is not Action.SKIP]
        lines = (line for row in rows for line in profilers.notes(profilers.completed(row.wrappers)))
        for line in dict.fromkeys(lines):
            yield f"{one.experiment}/{one.workload}: {line}"
