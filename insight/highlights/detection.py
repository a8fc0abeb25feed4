"""Detection of highlights: phases, repetitions, changes and outliers of a run.

All is read from what was measured (`hypergauge.insight.highlights.signals`); spans that the run tracked only lend their names.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from hypergauge.core.errors import NoData
from hypergauge.insight.highlights import outliers
from hypergauge.insight.highlights.formatting import Formatter, Line, lasting
from hypergauge.insight.highlights.phases import phases, scaled
from hypergauge.insight.highlights.repetition import Repetition, folded
from hypergauge.insight.highlights.segments import edges, spikes, without_spikes
from hypergauge.insight.highlights.signals import Signals, read
from hypergauge.sql.queries.report import Phase as Tracked
from hypergauge.sql.queries.report import phases as tracked_phases
from hypergauge.sql.runs import highlights as kept
from hypergauge.sql.runs.highlights import Highlight, slow_steps
from hypergauge.sql.runs.selection import RunInfo, runs_by_id
from hypergauge.sql.server.database import Connection

__all__ = ["Highlight", "highlight", "lines", "most_telling", "of_runs", "remember"]

MOST = 10
# A page of many runs should not wait for each: they take a second altogether.
_MOST_COMPUTED = 10
# Steps are far off that took so many times as long as the middle one, and seconds more.
_SLOW, _SLOW_SECONDS = 3.0, 1.0


def highlight(connection: Connection, run_id: str) -> list[Highlight]:
    """Return what happened in a run, in the order of time: the ten most telling lines, and how many more there are.

    Raises
    ------
    NoData
        The run is not there, has not started, or nothing was measured of it.
    """
    if (run := runs_by_id(connection, [run_id]).get(run_id)) is None:
        raise NoData(f"there is no run {run_id}")
    signals = read(connection, run)
    if signals is None or run.started_at is None:
        raise NoData(f"nothing was measured of {run.label}, so there is nothing to tell of it")
    found = lines(signals, tracked_phases(connection, [run_id]))
    found += _slow_steps(connection, run)
    start = run.started_at
    return [
        Highlight(
            start + timedelta(seconds=one.start), start + timedelta(seconds=one.end), one.kind, one.text, one.weight
        )
        for one in most_telling(found, signals.duration)
    ]


def remember(connection: Connection, run_id: str) -> list[Highlight]:
    """Keep the highlights of a run that has ended, and return them; there are none where nothing was measured."""
    try:
        found = highlight(connection, run_id)
    except NoData:
        found = []
    kept.store(connection, run_id, found)
    return found


def of_runs(connection: Connection, runs: Sequence[RunInfo]) -> dict[str, list[Highlight]]:
    """Return the highlights of runs of which there are any: those that are kept, and of some without them what they would be."""
    found = kept.load(connection, [run.run_id for run in runs])
    for run in [run for run in runs if run.run_id not in found][:_MOST_COMPUTED]:
        with contextlib.suppress(NoData):
            found[run.run_id] = highlight(connection, run.run_id)
    return found


def lines(signals: Signals, tracked: Sequence[Tracked] = ()) -> list[Line]:
    """Return all that there is to tell of curves, in no order; `tracked` phases lend their names to those that are found."""
    points = scaled(signals)
    moments = spikes(points)
    smooth = without_spikes(points, moments)
    found = phases(signals, smooth, edges(smooth))
    telling = Formatter(signals, smooth, found, tracked)
    told: list[Line] = []
    for node in folded(found):
        told.append(telling.node(node))
        if isinstance(node, Repetition):
            told += outliers.stretches(signals, node)
    for phase in found:
        if phase.kind == "training":
            told += outliers.changes(signals, smooth, phase)
    told += outliers.trends(signals, smooth, found)
    told += outliers.moments(signals, moments)
    told += outliers.gaps(signals)
    return told


def _slow_steps(connection: Connection, run: RunInfo) -> Iterator[Line]:
    for one in slow_steps(connection, run.run_id, times=_SLOW, least=_SLOW_SECONDS):
        assert run.started_at is not None
        start, end = ((time - run.started_at).total_seconds() for time in (one.started_at, one.ended_at))
        took = f"{lasting(one.slowest)}, usually {lasting(one.usual)}"
        text = f"{one.kind} {one.step} took {took}"
        if one.n > 1:
            text = f"{one.n} {one.kind}s took far longer than the others: {one.kind} {one.step} {took}"
        yield Line(start, end, "outlier", text, 0.5)


def most_telling(found: Iterable[Line], duration: float) -> list[Line]:
    """Return the most telling lines in the order of time, and one that says what is left out."""
    ranked = sorted(found, key=lambda one: (-one.weight, one.start))
    told, rest = ranked[:MOST], ranked[MOST:]
    told.sort(key=lambda one: (one.start, -one.end))
    if rest:
        kinds = Counter(one.kind for one in rest)
        words = ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.most_common())
        told.append(Line(0.0, duration, "rest", f"left out, since less telling: {words}", 0.0))
    return told
