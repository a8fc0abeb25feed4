"""Progress of runs over time, so that the same parts of two runs can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hypergauge.sql.queries.axes import places
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Progress", "progress_of"]

# Between them a run is taken to go on evenly.
_POINTS = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run was: `places` (steps or epochs) at `seconds` since its start, both ascending; it took `duration`."""

    seconds: Sequence[float]
    places: Sequence[float]
    duration: float

    def elsewhere(self, at: float, other: Progress) -> float:
        """Return when `other`, a run of the same configuration, was as far as this one was at `at`, since its own start."""
        mine = [0.0, *self.seconds, self.duration]
        theirs = [0.0, *np.interp(self.places, other.places, other.seconds), other.duration]
        return float(np.interp(at, mine, theirs))

    def pace(self, begins: float, ends: float) -> float:
        """Return the seconds that a step took between two times; 0 where there was none."""
        begins, ends = max(begins, self.seconds[0]), min(ends, self.seconds[-1])
        if ends <= begins:
            return 0.0
        first, last = np.interp([begins, ends], self.seconds, self.places)
        return float((ends - begins) / (last - first)) if last > first else 0.0


def progress_of(connection: Connection, runs: Sequence[RunInfo], align: str) -> dict[str, Progress]:
    """Return by id how far runs were, on an axis of `hypergauge.sql.queries.axes`; those that do not have it are missing."""
    found = places(connection, [run.run_id for run in runs], align, _POINTS)
    return {
        run.run_id: Progress(*found[label], run.duration or 0.0)
        for run in runs
        if (label := run.full_label) in found and found[label][1][0] < found[label][1][-1]
    }
