"""Histogram of the durations of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypergauge.sql.queries.charts.chart_styles import ChartStyle, run_styles
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.queries.report import step_counts
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Durations", "StepDurations", "step_durations"]

# More outlines than this cannot be distinguished.
_MOST_RUNS = 12


@dataclass(frozen=True, slots=True)
class Durations:
    """Steps of a run by duration: the number in each bin, and how many took longer, with the longest in seconds."""

    run: RunInfo
    style: ChartStyle
    counts: tuple[int, ...]
    longer: int
    longest: float


@dataclass(frozen=True, slots=True)
class StepDurations:
    """Histogram with common bins: from `first` on, each `width` seconds wide.

    Attributes
    ----------
    left_out
        Number of further runs with steps.
    """

    first: float
    width: float
    runs: tuple[Durations, ...]
    left_out: int


def step_durations(
    connection: Connection, runs: Sequence[RunInfo], parts: Mapping[str, RunPart] | None
) -> StepDurations | None:
    """Return the histogram of the finished steps of runs, or of those that began in a part; ``None`` without steps."""
    found = {one.run_id: one for one in step_counts(connection, [run.run_id for run in runs], parts)}
    drawn = [run for run in runs if run.run_id in found]
    if not drawn:
        return None
    styles = run_styles(connection, [run.run_id for run in runs])
    made = []
    for run in drawn[:_MOST_RUNS]:
        one = found[run.run_id]
        *counts, longer = one.counts
        made.append(Durations(run, styles[run.full_label], tuple(counts), longer, one.longest))
    one = found[drawn[0].run_id]
    return StepDurations(one.low, (one.high - one.low) / len(made[0].counts), tuple(made), len(drawn[_MOST_RUNS:]))
