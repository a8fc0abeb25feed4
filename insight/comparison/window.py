"""Common window of runs: steps, epochs or a phase that all of them have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypergauge.core.errors import NoData
from hypergauge.insight.comparison.alignment import axes_of, unit_of
from hypergauge.insight.part import Part
from hypergauge.sql.queries.charts.axes import Interval, intervals, training_phases, without_raw_samples
from hypergauge.sql.queries.notices import Fact, Reason
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Window", "window", "window_of"]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the axes of runs.

    Attributes
    ----------
    align
        Axis: ``time``, ``step``, ``epoch``, ``phase`` or ``phase:NAME``.
    first, last
        The common part; ``None`` for a phase.
    phases
        Names of the phases, if any.
    intervals
        Time of the part, by run.
    left_out
        Reason for each run without such a part, by label.
    part
        The part, if the user chose one.
    """

    align: str
    first: float | None
    last: float | None
    phases: tuple[str, ...]
    intervals: Mapping[str, Interval]
    left_out: Mapping[str, Reason]
    part: Part | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object; the runs' objects hold their own intervals."""
        part = {"first": self.first, "last": self.last, "phases": self.phases}
        return {"align": self.align, **part, "left_out": {run: reason.code for run, reason in self.left_out.items()}}

    def facts(self) -> Iterator[Fact]:
        """Yield a fact for each run that is left out."""
        for label, reason in self.left_out.items():
            yield Fact("not_aligned", [label], reason.as_dict())


def window(connection: Connection, runs: Sequence[RunInfo], align: str) -> Window:
    """Return the common part of the runs' axes.

    For time, steps and epochs it goes from the largest first to the smallest last value; for a phase it is each run's whole
    phase.

    Raises
    ------
    BadRequest
        No run has a phase of that name.
    NoData
        No run has the axis, or there is no common part.
    """
    ids = [run.run_id for run in runs]
    known = axes_of(connection, ids, align)
    deleted = without_raw_samples(connection, list(known))
    left_out = {run.label: Reason("no_axis", {"align": align}) for run in runs if run.run_id not in known}
    left_out |= {run.label: Reason("raw_samples_deleted") for run in runs if run.run_id in deleted}
    known = {run: axis for run, axis in known.items() if run not in deleted}
    if not known:
        raise NoData("the raw samples of the selected runs are deleted")
    if align.startswith("phase"):
        parts = {run: (axis.first, axis.last) for run, axis in known.items()}
        return Window(align, None, None, _phases(connection, ids, align), intervals(connection, parts, align), left_out)
    latest = max(known.values(), key=lambda axis: axis.first)
    soonest = min(known.values(), key=lambda axis: axis.last)
    if latest.first >= soonest.last:
        labels = {run.run_id: run.label for run in runs}
        raise NoData(
            f"the runs have no {unit_of(align)} in common: {labels[latest.run_id]} begins at {latest.first:,.10g}, "
            f"{labels[soonest.run_id]} ends at {soonest.last:,.10g}"
        )
    parts = dict.fromkeys(known, (latest.first, soonest.last))
    return Window(align, latest.first, soonest.last, (), intervals(connection, parts, align), left_out)


def window_of(connection: Connection, runs: Sequence[RunInfo], part: Part) -> Window:
    """Return a part of each run as a window.

    Raises
    ------
    BadRequest
        No run has the part.
    NoData
        The raw samples of all runs that have it are deleted.
    """
    found = part.find(connection, runs)
    deleted = without_raw_samples(connection, list(found))
    left_out = {run.label: Reason("outside_part") for run in runs if run.run_id not in found}
    left_out |= {run.label: Reason("raw_samples_deleted") for run in runs if run.run_id in deleted}
    intervals = {
        run: Interval(
            run, one.starts[0], one.ends[-1], one.started_at, one.ended_at, None if one.reaches_end else one.ended_at, one
        )
        for run, one in found.items()
        if run not in deleted
    }  # fmt: skip
    if not intervals:
        raise NoData("the raw samples of the selected runs are deleted")
    return Window("time", part.first, part.last, (part.phase,) if part.phase else (), intervals, left_out, part)


def _phases(connection: Connection, run_ids: Sequence[str], align: str) -> tuple[str, ...]:
    if align == "phase":
        return tuple(dict.fromkeys(training_phases(connection, run_ids).values()))
    return (align.removeprefix("phase:"),) if align.startswith("phase:") else ()
