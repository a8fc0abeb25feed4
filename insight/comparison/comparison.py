"""Comparison of runs, rows over all attempts, or workloads, against a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight.comparison.aggregate import finished, row_entry, workload_entry
from hypergauge.insight.comparison.alignment import check_align
from hypergauge.insight.comparison.columns import is_of_energy, is_of_total, is_of_whole, values_of
from hypergauge.insight.comparison.energy import per_unit, with_total
from hypergauge.insight.comparison.entry import Entry, Further
from hypergauge.insight.comparison.shared import SHARED_SCOPES, parts
from hypergauge.insight.comparison.throughput import with_throughput
from hypergauge.insight.comparison.verdicts import Gate
from hypergauge.insight.comparison.window import Window, window, window_of
from hypergauge.insight.part import Part
from hypergauge.sql.queries.charts.axes import Interval
from hypergauge.sql.queries.notices import notices
from hypergauge.sql.queries.report import Work, works
from hypergauge.sql.queries.summaries import (
    FinalMetric,
    GpuFacts,
    Summary,
    final_metrics,
    gpu_facts,
    summaries,
    summaries_between,
)
from hypergauge.sql.queries.throughput import throughputs
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["Comparison", "Entry", "compare"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compared entries, and the label of the baseline, if any.

    With a window, values are those of a part of each run. With a gate, entries are the tested attempts (see
    `hypergauge.insight.regression`).
    """

    by: str
    entries: tuple[Entry, ...]
    baseline: str | None
    window: Window | None = None
    gate: Gate | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "by": self.by,
            "baseline": self.baseline,
            "window": self.window and self.window.as_dict(),
            "gate": self.gate and self.gate.as_dict(),
            f"{self.by}s": [entry.as_dict(self.by) for entry in self.entries],
        }


def compare(
    connection: Connection,
    selectors: Sequence[str],
    *,
    by: str = "run",
    baseline: str | None = None,
    scope: str | None = None,
    simulated: bool = False,
    every_attempt: bool = False,
    align: str | None = None,
    part: Part | None = None,
    further: Sequence[Further] = (),
) -> Comparison:
    """Compare runs, rows by all their attempts, or workloads by the latest attempts of their runs.

    Parameters
    ----------
    by
        ``run``, ``row`` or ``workload``.
    baseline
        Selector of the baseline.
    scope
        One of `hypergauge.insight.comparison.columns.SCOPES`; by default the narrowest that covers a run, for each quantity.
    simulated
        Whether power and energy of simulated GPUs count.
    every_attempt
        Whether a selector without an attempt means all attempts of runs, not the latest one.
    align
        An axis (see `hypergauge.insight.comparison.window`), for values of the common part instead of whole runs. A run
        without the axis is left out.
    part
        Part of each run, for its values instead of those of whole runs; it excludes `align`.
    further
        Functions that add values: see `hypergauge.insight.cost.cost` and `hypergauge.insight.cost.target`.

    Raises
    ------
    NoData
        No selected run has started or has the common part.
    """
    if align is not None:
        check_align(align)
    every_attempt = by == "row" or (by == "run" and every_attempt)
    runs = [r for r in select_runs(connection, selectors, every_attempt=every_attempt) if r.started_at is not None]
    base = [
        run
        for run in (select_runs(connection, [baseline], every_attempt=by == "row") if baseline else ())
        if run.started_at is not None
    ]
    if not runs:
        raise NoData("none of the selected runs has started yet")
    runs = [*base, *(run for run in runs if run not in base)]
    repeated = {label for label, count in Counter(run.label for run in runs).items() if count > 1}
    within = None
    if align is not None or part is not None:
        counted = _counted(runs) if by == "row" else runs
        within = (
            window_of(connection, counted, part) if align is None and part else window(connection, counted, align or "")
        )
        runs, base = _within(within, counted, runs), _within(within, counted, base)
        if baseline and not base:
            why = " ".join(one.text for one in notices(connection, within.facts()))
            raise NoData(f"--baseline {baseline} cannot be the baseline: {why.removesuffix('.')}")
    done = works(connection, [run.run_id for run in runs])
    entries = _entries(connection, runs, by, repeated, scope, simulated, within, further, done)
    base_entry = None
    if base:
        wanted = {_label(run, by, repeated) for run in base}
        if len(wanted) > 1:
            raise BadRequest(f"--baseline {baseline} names {len(wanted)} {by}s: {', '.join(sorted(wanted))}; name one")
        base_entry = next(entry for entry in entries if entry.label in wanted)
        entries = [_against(entry, base_entry, done, whole=within is None) for entry in entries]
    return Comparison(by, tuple(entries), base_entry.label if base_entry else None, within)


def _label(run: RunInfo, by: str, repeated: Collection[str]) -> str:
    if by == "workload":
        return f"{run.experiment_id}/{run.workload}"
    return f"{run.label}@{run.attempt}" if by == "run" and run.label in repeated else run.label


def _entries(
    connection: Connection, runs: Sequence[RunInfo], by: str, repeated: Collection[str], scope: str | None,
    simulated: bool, part: Window | None, further: Sequence[Further], done: Mapping[str, Work],
) -> list[Entry]:  # fmt: skip
    ids = [run.run_id for run in runs]
    intervals = part.intervals if part else {}
    by_run: dict[str, list[Summary]] = {}
    for summary in (
        *summaries(connection, [run for run in ids if run not in intervals]),
        *summaries_between(connection, [intervals[run] for run in ids if run in intervals]),
    ):
        by_run.setdefault(summary.run_id, []).append(summary)
    last = final_metrics(connection, ids)
    before = {run: interval.followed_at for run, interval in intervals.items()}
    software: dict[str, list[FinalMetric]] = {}
    for metric in final_metrics(connection, ids, before) if intervals else last:
        software.setdefault(metric.run_id, []).append(metric)
    diverged: dict[str, set[str]] = {}
    for metric in last:
        if metric.value is None:
            diverged.setdefault(metric.run_id, set()).add(metric.key)
    facts = gpu_facts(connection, ids)
    entries = [
        _run_entry(
            run, intervals.get(run.run_id), by_run.get(run.run_id, ()), facts[run.run_id], software.get(run.run_id, ()),
            scope, simulated=simulated,
        )
        for run in runs
    ]  # fmt: skip
    entries = [
        replace(
            entry,
            label=_label(entry.runs[0], "run", repeated),
            diverged=frozenset(diverged.get(entry.runs[0].run_id, ())),
        )
        for entry in entries
    ]
    counts = throughputs(connection, ids, intervals)
    entries = per_unit(connection, [with_total(entry) for entry in entries], intervals, counts)
    entries = with_throughput(connection, entries, counts, simulated=simulated)
    counted = parts(connection, entries, scope) if by == "workload" and scope in SHARED_SCOPES else entries
    for add in further:
        same = counted is entries
        entries = add(connection, entries)
        counted = entries if same else add(connection, counted)
    if by == "run":
        return entries
    groups: dict[str, list[tuple[Entry, Entry]]] = {}
    for entry, part_of_it in zip(entries, counted, strict=True):
        groups.setdefault(_label(entry.runs[0], by, repeated), []).append((entry, part_of_it))
    return [
        row_entry(label, [entry for entry, _ in group]) if by == "row" else workload_entry(label, group, done)
        for label, group in groups.items()
    ]


def _run_entry(
    run: RunInfo, interval: Interval | None, found: Iterable[Summary], facts: GpuFacts, software: Iterable[FinalMetric],
    scope: str | None, *, simulated: bool,
) -> Entry:  # fmt: skip
    duration = interval.seconds if interval else run.duration
    measured = values_of(found, facts, duration, scope, electric=simulated or not facts.simulated)
    values = {**({} if duration is None else {"duration_seconds": duration}), **measured.values}
    final = {metric.key: metric.value for metric in software}
    coverage = None if run.chose_no_processes and not measured.coverage else measured.coverage
    return Entry(
        run.label, run.name, run.status, (run,), values, measured.scopes, final, measured.quantities,
        simulated=facts.simulated, energy_method=measured.energy_method, energy_divided=facts.energy_divided,
        host_energy_method=facts.host_energy_method,
        coverage=coverage, gpu_coverage=measured.gpu_coverage,
        # Of a running run the last samples are on their way.
        incomplete=frozenset() if run.status == "running" else measured.incomplete, intervals=(interval,) if interval else (),
    )  # fmt: skip


def _counted(runs: Iterable[RunInfo]) -> list[RunInfo]:
    rows: dict[str, list[RunInfo]] = {}
    for run in runs:
        rows.setdefault(run.label, []).append(run)
    return [run for row in rows.values() for run in finished(row)]


def _within(part: Window, counted: Iterable[RunInfo], runs: Iterable[RunInfo]) -> list[RunInfo]:
    """Return the runs with a part of the window, and uncounted attempts of their rows."""
    rows = {run.label for run in counted if run.run_id in part.intervals}
    without = {run.run_id for run in counted} - part.intervals.keys()
    return [run for run in runs if run.label in rows and run.run_id not in without]


def _against(entry: Entry, base: Entry, works: Mapping[str, Work], *, whole: bool) -> Entry:
    """Return an entry with its changes; `whole` if the values are those of whole runs."""
    if entry is base:
        return entry
    in_part = whole and not (entry.finished and base.finished)
    changes = {}
    for key, value in entry.values.items():
        other = base.values.get(key)
        if is_of_energy(key) and _energies_differ_in_kind(entry, base):
            continue
        if is_of_total(key) and entry.energy_parts != base.energy_parts:
            continue
        if in_part and is_of_whole(key):
            continue
        if other:
            changes[key] = (value - other) / abs(other)
    for key, last in () if in_part else entry.software.items():
        other = base.software.get(key)
        if last is not None and other:
            changes[key] = (last - other) / abs(other)
    other_work, other_program = (
        _works(entry, works, kind) != _works(base, works, kind) for kind in ("work", "program")
    )
    unlike = (key for key in changes if (other_program if key in entry.software else other_work))
    return replace(entry, changes=changes, of_other_work=frozenset(unlike))


def _works(entry: Entry, works: Mapping[str, Work], kind: str) -> set[str]:
    return {getattr(works[run.run_id], kind) for run in entry.runs}


def _energies_differ_in_kind(one: Entry, other: Entry) -> bool:
    """Return whether the difference of energies would mostly be idle energy, or that of a neighbour under MPS."""
    return one.has_idle_energy != other.has_idle_energy or one.energy_divided != other.energy_divided
