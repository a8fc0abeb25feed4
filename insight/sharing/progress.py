"""Progress of runs over time, for comparing the same parts of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hypergauge.sql.queries.charts.axes import positions
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Progress", "progress_of"]

# Points of a run; progress between them is linear.
_POINTS = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run: `positions` (steps or epochs) at `seconds` since its start, both ascending, and its `duration`."""

    seconds: Sequence[float]
    positions: Sequence[float]
    duration: float

    def elsewhere(self, at: float, other: Progress) -> float:
        """Return when `other`, a run of the same configuration, reached this run's position at `at`."""
        mine = [0.0, *self.seconds, self.duration]
        theirs = [0.0, *np.interp(self.positions, other.positions, other.seconds), other.duration]
        return float(np.interp(at, mine, theirs))

    def pace(self, begins: float, ends: float) -> float:
        """Return the seconds per step between two times; 0 without steps."""
        begins, ends = max(begins, self.seconds[0]), min(ends, self.seconds[-1])
        if ends <= begins:
            return 0.0
        first, last = np.interp([begins, ends], self.seconds, self.positions)
        return float((ends - begins) / (last - first)) if last > first else 0.0


def progress_of(connection: Connection, runs: Sequence[RunInfo], align: str) -> dict[str, Progress]:
    """Return the progress of runs by id on an axis of `hypergauge.sql.queries.charts.axes`; runs without it are missing."""
    found = positions(connection, [run.run_id for run in runs], align, _POINTS)
    return {
        run.run_id: Progress(*found[label], run.duration or 0.0)
        for run in runs
        if (label := run.full_label) in found and found[label][1][0] < found[label][1][-1]
    }
