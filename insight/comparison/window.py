"""Common window of runs: steps, epochs or a phase that all of them have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypergauge.core.errors import NoData
from hypergauge.insight.comparison.alignment import axes_of, unit_of
from hypergauge.sql.queries.axes import Stretch, stretches, training_phases, without_raw_samples
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Window", "window"]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the axes of runs.

    Attributes
    ----------
    align
        What the axes count: ``time``, ``step``, ``epoch``, ``phase`` or ``phase:NAME``.
    first, last
        The part that all have in common; of a phase, which each has a whole one of, ``None``.
    phases
        The names of the phases that the runs' parts are; else none.
    stretches
        By run, the time that it took for it.
    left_out
        By the label of each run that has no such part, the reason.
    """

    align: str
    first: float | None
    last: float | None
    phases: tuple[str, ...]
    stretches: Mapping[str, Stretch]
    left_out: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return what is written of it to JSON; each run's own stands with the run."""
        part = {"first": self.first, "last": self.last, "phases": self.phases}
        return {"align": self.align, **part, "left_out": dict(self.left_out)}


def window(connection: Connection, runs: Sequence[RunInfo], align: str) -> Window:
    """Return the part of their axes that runs have in common.

    Of time, steps and epochs that is from the largest first to the smallest last one; of a phase it is the whole of each
    run's.

    Raises
    ------
    BadRequest
        No run has a phase of that name.
    NoData
        No run has such an axis, or they have nothing in common.
    """
    ids = [run.run_id for run in runs]
    known = axes_of(connection, ids, align)
    gone = without_raw_samples(connection, list(known))
    left_out = {run.label: f"it has no {unit_of(align)}" for run in runs if run.run_id not in known}
    left_out |= {run.label: "its raw samples are no longer kept" for run in runs if run.run_id in gone}
    known = {run: axis for run, axis in known.items() if run not in gone}
    if not known:
        raise NoData("the raw samples of the selected runs are no longer kept")
    if align.startswith("phase"):
        parts = {run: (axis.first, axis.last) for run, axis in known.items()}
        return Window(align, None, None, _phases(connection, ids, align), stretches(connection, parts, align), left_out)
    latest = max(known.values(), key=lambda axis: axis.first)
    soonest = min(known.values(), key=lambda axis: axis.last)
    if latest.first >= soonest.last:
        labels = {run.run_id: run.label for run in runs}
        raise NoData(
            f"the runs have no {unit_of(align)} in common: {labels[latest.run_id]} begins at {latest.first:,.10g}, "
            f"{labels[soonest.run_id]} ends at {soonest.last:,.10g}"
        )
    parts = dict.fromkeys(known, (latest.first, soonest.last))
    return Window(align, latest.first, soonest.last, (), stretches(connection, parts, align), left_out)


def _phases(connection: Connection, run_ids: Sequence[str], align: str) -> tuple[str, ...]:
    if align == "phase":
        return tuple(dict.fromkeys(training_phases(connection, run_ids).values()))
    return (align.removeprefix("phase:"),) if align.startswith("phase:") else ()
