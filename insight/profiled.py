"""What a comparison says of runs that were profiled: their times are not those of plain runs."""

from __future__ import annotations

from collections.abc import Iterator

from insight.comparison import Comparison

__all__ = ["footnotes"]

# A workload of many runs would otherwise be a page of footnotes.
_MOST_RUNS = 12


def footnotes(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each run that was profiled; of many only the first."""
    profiled = [
        (entry.label if comparison.by == "run" else run.label, run.profilers)
        for entry in comparison.entries
        for run in entry.runs
        if run.profilers
    ]
    for label, profilers in profiled[:_MOST_RUNS]:
        names = " and ".join(profilers.split("+"))
        yield f"{label} was profiled by {names}: its times are not those of a plain run"
    if len(profiled) > _MOST_RUNS:
        yield f"… and so were {len(profiled) - _MOST_RUNS} more runs, see --json"
