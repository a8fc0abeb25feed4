"""Detection of highlights: phases, repetitions, changes and outliers of a run.

The curves of `hypergauge.insight.highlights.signals` are the only input. Tracked spans only give names.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from hypergauge.core import durations
from hypergauge.core.errors import NoData
from hypergauge.insight.highlights import outliers
from hypergauge.insight.highlights.formatting import Formatter, Line, lasting
from hypergauge.insight.highlights.phases import phases, scaled
from hypergauge.insight.highlights.repetition import Repetition, folded
from hypergauge.insight.highlights.segments import edges, spikes, without_spikes
from hypergauge.insight.highlights.signals import Signals, read
from hypergauge.sql.queries.contention import contention_facts
from hypergauge.sql.queries.notices import notices
from hypergauge.sql.queries.report import Phase as Tracked
from hypergauge.sql.queries.report import phases as tracked_phases
from hypergauge.sql.runs import highlights as kept
from hypergauge.sql.runs.highlights import Highlight, slow_steps
from hypergauge.sql.runs.selection import RunInfo, runs_by_id
from hypergauge.sql.server.database import Connection

__all__ = ["Highlight", "highlight", "lines", "most_significant", "of_runs", "store"]

MOST = 10
# Ten runs take a second; a page of many runs should not take longer.
_MOST_COMPUTED = 10
# Slow steps take this multiple of the median, and at least this many seconds more.
_SLOW, _SLOW_SECONDS = 3.0, 1.0
# A curve needs two samples, by default one a second. A shorter run may have values all the same, such as its CPU time.
_SHORTEST_SECONDS = 2.0


def highlight(connection: Connection, run_id: str) -> list[Highlight]:
    """Return the ten most significant lines of a run in order of time, and a count of the others.

    Raises
    ------
    NoData
        The run does not exist, has not started, is too short, or has no samples.
    """
    if (run := runs_by_id(connection, [run_id]).get(run_id)) is None:
        raise NoData(f"there is no run {run_id}")
    signals = read(connection, run)
    if signals is None or run.started_at is None:
        raise NoData(_without_signals(run))
    found = lines(signals, tracked_phases(connection, [run_id]))
    found += _slow_steps(connection, run)
    found += _other_programs(connection, run)
    start = run.started_at
    return [
        Highlight(
            start + timedelta(seconds=one.start), start + timedelta(seconds=one.end), one.kind, one.text, one.weight
        )
        for one in most_significant(found, signals.duration)
    ]


def _other_programs(connection: Connection, run: RunInfo) -> Iterator[Line]:
    """Yield a line for each kind of other programs that may have cost the run much of its time."""
    for notice in notices(connection, contention_facts(connection, [run.run_id])):
        yield Line(0.0, run.duration or 0.0, "contention", notice.text.rstrip("."), 1.0)


def _without_signals(run: RunInfo) -> str:
    if run.exporters == {}:
        return f"there are no measurements of {run.label}: its row chose no exporter"
    if run.ended_at is not None and run.duration is not None and run.duration < _SHORTEST_SECONDS:
        took = durations.words(timedelta(seconds=round(run.duration, 3)))
        return f"{run.label} is too short for highlights: it took {took}"
    return f"there are no measurements of {run.label}"


def store(connection: Connection, run_id: str) -> list[Highlight]:
    """Store and return the highlights of an ended run; without samples there are none."""
    try:
        found = highlight(connection, run_id)
    except NoData:
        found = []
    kept.store(connection, run_id, found)
    return found


def of_runs(connection: Connection, runs: Sequence[RunInfo]) -> dict[str, list[Highlight]]:
    """Return the highlights of runs: stored ones, and computed ones for some of the others."""
    found = kept.load(connection, [run.run_id for run in runs])
    for run in [run for run in runs if run.run_id not in found][:_MOST_COMPUTED]:
        with contextlib.suppress(NoData):
            found[run.run_id] = highlight(connection, run.run_id)
    return found


def lines(signals: Signals, tracked: Sequence[Tracked] = ()) -> list[Line]:
    """Return all findings in curves, unordered. Detected phases take the names of simultaneous `tracked` ones."""
    points = scaled(signals)
    moments = spikes(points)
    smooth = without_spikes(points, moments)
    found = phases(signals, smooth, edges(smooth))
    formatter = Formatter(signals, smooth, found, tracked)
    result: list[Line] = []
    for node in folded(found):
        result.append(formatter.node(node))
        if isinstance(node, Repetition):
            result += outliers.odd_rounds(signals, node)
    for phase in found:
        if phase.kind == "training":
            result += outliers.changes(signals, smooth, phase)
    result += outliers.trends(signals, smooth, found)
    result += outliers.moments(signals, moments)
    result += outliers.gaps(signals)
    return result


def _slow_steps(connection: Connection, run: RunInfo) -> Iterator[Line]:
    for one in slow_steps(connection, run.run_id, times=_SLOW, least=_SLOW_SECONDS):
        assert run.started_at is not None
        start, end = ((time - run.started_at).total_seconds() for time in (one.started_at, one.ended_at))
        took = f"{lasting(one.slowest)}, usually {lasting(one.usual)}"
        text = f"{one.kind} {one.step} took {took}"
        if one.n > 1:
            text = f"{one.n} {one.kind}s were slow: {one.kind} {one.step} {took}"
        yield Line(start, end, "outlier", text, 0.5)


def most_significant(found: Iterable[Line], duration: float) -> list[Line]:
    """Return the most significant lines in order of time, and one on the others."""
    ranked = sorted(found, key=lambda one: (-one.weight, one.start))
    chosen, rest = ranked[:MOST], ranked[MOST:]
    chosen.sort(key=lambda one: (one.start, -one.end))
    if rest:
        kinds = Counter(one.kind for one in rest)
        words = ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.most_common())
        chosen.append(Line(0.0, duration, "rest", f"less significant: {words}", 0.0))
    return chosen
