"""What running side by side cost, and whether it paid: computed from the measured runs, whichever way it came out."""

from __future__ import annotations

from collections.abc import Iterator

from insight.comparison import Comparison, Entry
from sql.selection import RunInfo

__all__ = ["verdict"]


def verdict(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each run that is there alone and collocated, and one for each workload of several runs.

    Two runs are the same configuration when their commands, environments and devices are. A workload is judged where
    each of its runs is also there alone: its makespan against the sum of their durations one after the other.
    """
    groups: dict[tuple[int, int], list[Entry]] = {}
    for entry in comparison.entries:
        [run] = entry.runs
        if entry.status == "finished" and run.duration:
            groups.setdefault((run.experiment_id, run.workload), []).append(entry)
    alone = {_configuration(group[0].runs[0]): group[0] for group in groups.values() if len(group) == 1}
    for (experiment, workload), group in groups.items():
        pairs = [(entry, alone.get(_configuration(entry.runs[0]))) for entry in group]
        if len(group) < 2 or any(other is None for _, other in pairs):
            continue
        one_by_one = 0.0
        for entry, other in pairs:
            assert other is not None
            mine, theirs = entry.figures["duration_seconds"], other.figures["duration_seconds"]
            one_by_one += theirs
            yield (
                f"{entry.label} {entry.name}: {mine:.1f} s beside others, {theirs:.1f} s alone "
                f"({other.label}): {_percent(mine / theirs - 1)}"
            )
        starts = [run.started_at for e in group if (run := e.runs[0]).started_at]
        ends = [run.ended_at for e in group if (run := e.runs[0]).ended_at]
        makespan = (max(ends) - min(starts)).total_seconds()
        change = makespan / one_by_one - 1
        judgement = (
            "Collocation paid" if change < -0.02 else "Collocation did not pay" if change > 0.02 else "It was even"
        )
        yield (
            f"Workload {experiment}/{workload} took {makespan:.1f} s, its runs one after the other {one_by_one:.1f} s. "
            f"{judgement}: {_percent(change)}."
        )


def _configuration(run: RunInfo) -> tuple[str, str, str]:
    return run.command, run.environment, run.devices


def _percent(change: float) -> str:
    """Return a relative change in words."""
    return f"{abs(change):.0%} {'longer' if change > 0 else 'shorter'}" if abs(change) >= 0.005 else "no difference"
