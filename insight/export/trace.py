"""Trace of runs: spans of the scripts and calls of a profiler above hardware metrics.

The format is the Trace Event Format, which Perfetto (https://ui.perfetto.dev) and Chrome's ``chrome://tracing`` open. Times
are microseconds since the start of the run's pass of its workload. So runs of one pass keep their relative times, and
workloads and repetitions all start at 0.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypergauge.core.calls import Call
from hypergauge.core.errors import NoData
from hypergauge.core.files.run_folder import appearing
from hypergauge.sql.queries.neighbours import NeighbourChange, neighbour_changes
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.queries.traces import (
    CounterValue,
    TracedRun,
    TracedSpan,
    counters_of,
    spans_of,
    traced_runs,
    xids_of,
)
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Calls", "Written", "write_trace"]

Event = dict[str, Any]

Calls = Callable[[RunInfo], Iterable[Call]]

# Track of the run itself in its group.
_RUN_TRACK = 1


@dataclass(slots=True)
class Written:
    """Counts of a written trace."""

    runs: int = 0
    spans: int = 0
    samples: int = 0
    calls: int = 0


def write_trace(
    connection: Connection, runs: Sequence[RunInfo], path: Path, quantities: Sequence[str] | None = None,
    parts: Mapping[str, RunPart] | None = None, calls: Calls = lambda _: (),
) -> Written:  # fmt: skip
    """Write the trace of runs, compressed for a file name that ends in ``.gz``. An error leaves no partial file.

    Parameters
    ----------
    quantities
        Quantities in any scope; by default the software metrics, and all quantities that the runs have in a narrower scope
        than their host.
    parts
        Part of each run by id; by default whole runs. Spans that overlap the part are whole.
    calls
        Function that returns the recorded calls of a run, in Unix time.

    Raises
    ------
    NoData
        None of the runs has begun.
    """
    traced = traced_runs(connection, [run.run_id for run in runs if parts is None or run.run_id in parts])
    if not traced:
        raise NoData("none of the selected runs has started")
    written = Written(runs=len(traced))
    opened = gzip.open if path.name.endswith(".gz") else open
    with appearing(path) as temporary, opened(temporary, "wt", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "traceEvents": [')
        separator = "\n"
        for event in _Events(connection, written, quantities, parts or {}, calls).of(runs, traced):
            file.write(separator)
            file.write(json.dumps(event, ensure_ascii=False))
            separator = ",\n"
        file.write("\n]}\n")
    return written


class _Events:
    """Events of runs. Each run is a "process" of the trace, and so is each of its processes with spans."""

    def __init__(
        self, connection: Connection, written: Written, quantities: Sequence[str] | None, parts: Mapping[str, RunPart],
        calls: Calls,
    ) -> None:  # fmt: skip
        self._connection, self._written, self._quantities = connection, written, quantities
        self._parts, self._recorded = parts, calls
        # Counted, since process ids of several runs may be equal.
        self._groups = itertools.count(1)

    def of(self, runs: Sequence[RunInfo], traced: dict[str, TracedRun]) -> Iterator[Event]:
        neighbours = neighbour_changes(self._connection, list(traced))
        for run in runs:
            if (times := traced.get(run.run_id)) is not None:
                yield from self._run(run, times, neighbours.get(run.run_id, ()))

    def _run(self, run: RunInfo, times: TracedRun, neighbours: Sequence[NeighbourChange]) -> Iterator[Event]:
        group = next(self._groups)
        title = f"{times.label} {run.name}".rstrip()
        yield from _named(group, title)
        yield _metadata(group, _RUN_TRACK, "thread_name", name="run")
        about = {
            "run_id": run.run_id, "status": run.status, "exit_code": run.exit_code, "reason": run.reason,
            "command": run.command, "host": run.host, "devices": run.devices, "params": run.params,
        }  # fmt: skip
        yield {
            "ph": "X", "cat": "run", "name": title, "pid": group, "tid": _RUN_TRACK,
            "ts": times.start, "dur": max(0, times.end - times.start), "args": about,
        }  # fmt: skip
        part = self._parts.get(run.run_id)
        within = part.times if part else None
        for change in neighbours:
            if part and not part.holds(change.at):
                continue
            at = times.start + round(change.at * 1e6)
            yield _instant(group, "neighbour", f"{change.run} {change.what}", at, status=change.status)
        for xid in xids_of(self._connection, run.run_id):
            if part and not part.holds((xid.at - times.start) / 1e6):
                continue
            yield _instant(group, "xid", f"XID {xid.number}", xid.at, device=xid.device)
        for counter in counters_of(self._connection, run.run_id, self._quantities, within):
            self._written.samples += 1
            yield _counter(group, counter)
        yield from self._spans(run.run_id, title, times.end, within)
        yield from self._calls(run, title, times.start, part)

    def _spans(self, run_id: str, title: str, run_end: int, within: str | None) -> Iterator[Event]:
        spans = spans_of(self._connection, run_id, within)
        for pid, of_process in itertools.groupby(spans, key=lambda span: span.pid):
            group = next(self._groups)
            yield from _named(group, f"{title}: process {pid}")
            tracks = itertools.count(1)
            for thread, of_thread in itertools.groupby(of_process, key=lambda span: span.thread):
                lanes: list[_Lane] = []
                for span in of_thread:
                    end = run_end if span.end is None else span.end
                    end = max(end, span.start)
                    lane, named = _lane(group, thread or "thread", lanes, tracks, span.start, end)
                    yield from named
                    self._written.spans += 1
                    yield _span(group, lane.track, span, end)

    def _calls(self, run: RunInfo, title: str, run_start: int, part: RunPart | None) -> Iterator[Event]:
        """Yield what a profiler recorded, with a track for each thread of a process and each stream of a GPU."""
        assert run.started_at is not None
        zero = run.started_at.timestamp()
        calls = (one for one in self._recorded(run) if part is None or part.holds(one.start - zero))
        found = sorted(calls, key=lambda one: (one.track, one.start, -one.seconds))
        if not found:
            return
        group = next(self._groups)
        yield from _named(group, f"{title}: profiler")
        tracks = itertools.count(1)
        for track, of_track in itertools.groupby(found, key=lambda one: one.track):
            lanes: list[_Lane] = []
            for call in of_track:
                start = run_start + round((call.start - zero) * 1e6)
                end = start + max(1, round(call.seconds * 1e6))
                lane, named = _lane(group, track, lanes, tracks, start, end)
                yield from named
                self._written.calls += 1
                yield {
                    "ph": "X", "cat": call.kind, "name": call.name, "pid": group, "tid": lane.track,
                    "ts": start, "dur": end - start, "args": {"microseconds": round(call.seconds * 1e6, 3)},
                }  # fmt: skip


class _Lane:
    """Track whose spans are nested or disjoint; a thread with other overlaps needs several tracks."""

    def __init__(self, track: int, end: int) -> None:
        self.track = track
        self._open = [end]

    def takes(self, start: int, end: int) -> bool:
        """Add a span, in the order of starts, and return whether it fits without a partial overlap."""
        while self._open and self._open[-1] <= start:
            self._open.pop()
        if self._open and self._open[-1] < end:
            return False
        self._open.append(end)
        return True


def _lane(
    group: int, name: str, lanes: list[_Lane], tracks: Iterator[int], start: int, end: int
) -> tuple[_Lane, list[Event]]:
    """Return the first lane that takes a span, and the events that name a new one."""
    if (lane := next((one for one in lanes if one.takes(start, end)), None)) is not None:
        return lane, []
    lane = _Lane(next(tracks), end)
    lanes.append(lane)
    shown = name if len(lanes) == 1 else f"{name} ({len(lanes)})"
    return lane, [
        _metadata(group, lane.track, "thread_name", name=shown),
        _metadata(group, lane.track, "thread_sort_index", sort_index=lane.track),
    ]


def _named(group: int, title: str) -> Iterator[Event]:
    yield _metadata(group, 0, "process_name", name=title)
    yield _metadata(group, 0, "process_sort_index", sort_index=group)


def _metadata(group: int, track: int, what: str, **arguments: object) -> Event:
    return {"ph": "M", "name": what, "pid": group, "tid": track, "args": arguments}


def _instant(group: int, category: str, name: str, at: int, **arguments: object) -> Event:
    known = {key: value for key, value in arguments.items() if value}
    return {
        "ph": "i", "s": "p", "cat": category, "name": name, "pid": group, "tid": _RUN_TRACK, "ts": at, "args": known,
    }  # fmt: skip


def _counter(group: int, counter: CounterValue) -> Event:
    unit = f" ({counter.unit})" if counter.unit else ""
    device = f" {counter.device}" if counter.device else ""
    # The scope is the name of the series: viewers show it next to the track's name.
    return {
        "ph": "C", "name": f"{counter.quantity}{unit}{device}", "pid": group, "tid": _RUN_TRACK, "ts": counter.start,
        "args": {counter.scope or "value": counter.value},
    }  # fmt: skip


def _span(group: int, track: int, span: TracedSpan, end: int) -> Event:
    arguments: dict[str, object] = {} if span.step is None else {"step": span.step}
    if span.end is None:
        arguments["ended"] = "with the run"
    return {
        "ph": "X", "cat": span.kind, "name": span.name, "pid": group, "tid": track,
        "ts": span.start, "dur": end - span.start, "args": arguments,
    }  # fmt: skip
