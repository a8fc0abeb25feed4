"""Utilization of each core of a run's host over the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hypergauge.insight.charts.chart import Floats
from hypergauge.sql.queries.charts.cores import core_curves
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Cores", "cores"]

# Columns of a map: more than a page shows apart. Seconds of the shortest: exporters measure that often.
_COLUMNS, _LEAST_SECONDS = 120, 1.0


@dataclass(frozen=True, slots=True)
class Cores:
    """Utilization of the cores of a run's host.

    Attributes
    ----------
    names
        Cores in the order of their numbers.
    start, step
        Start of the first column since the run's start, and width of a column, in seconds.
    shares
        Mean utilization, a ratio, by core and column; NaN where it was not measured.
    """

    run: RunInfo
    names: tuple[str, ...]
    start: float
    step: float
    shares: Floats

    @property
    def end(self) -> float:
        """End of the last column in seconds since the run's start."""
        columns: int = self.shares.shape[1]
        return self.start + self.step * columns


def cores(
    connection: Connection, runs: Sequence[RunInfo], parts: Mapping[str, RunPart] | None, most: int
) -> tuple[Cores, ...]:
    """Return the cores of the hosts of runs, of at most `most` runs; none where the cores were not measured apart."""
    found: list[Cores] = []
    for run in runs:
        if len(found) == most:
            break
        if (one := _cores(connection, run, parts)) is not None:
            found.append(one)
    return tuple(found)


def _cores(connection: Connection, run: RunInfo, parts: Mapping[str, RunPart] | None) -> Cores | None:
    part = None if parts is None else parts.get(run.run_id)
    if run.duration is None or (parts is not None and part is None):
        return None
    first, last = (part.starts[0], part.ends[-1]) if part else (0.0, run.duration)
    step = max(_LEAST_SECONDS, (last - first) / _COLUMNS)
    curves = core_curves(connection, run.run_id, first, step, part)
    if len(curves) < 2:
        return None
    begins = min(one.x[0] for one in curves)
    # The database may have chosen a longer step.
    apart = [after - before for one in curves for before, after in zip(one.x, one.x[1:], strict=False)]
    step = min(apart, default=step)
    columns = round((max(one.x[-1] for one in curves) - begins) / step) + 1
    shares = np.full((len(curves), columns), np.nan)
    for row, one in zip(shares, curves, strict=True):
        row[np.round((np.array(one.x) - begins) / step).astype(int)] = one.value
    return Cores(run, tuple(one.device for one in curves), begins, step, shares)
