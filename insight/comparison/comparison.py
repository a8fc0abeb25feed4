"""Comparison of runs, rows over all attempts, or workloads, against a baseline."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight.comparison.alignment import check_align
from hypergauge.insight.comparison.columns import ENERGY_KEY, SCOPES, is_of_energy, is_summed, values_of
from hypergauge.insight.comparison.entry import Entry, Further, Missing
from hypergauge.insight.comparison.shared import SHARED_SCOPES, parts
from hypergauge.insight.comparison.verdicts import Gate
from hypergauge.insight.comparison.window import Window, window
from hypergauge.insight.sharing.concurrent_runs import passes
from hypergauge.sql.queries.axes import Interval
from hypergauge.sql.queries.summaries import (
    FinalMetric,
    GpuFacts,
    Summary,
    final_metrics,
    gpu_facts,
    summaries,
    summaries_between,
)
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["Comparison", "Entry", "compare"]

One = TypeVar("One", RunInfo, Entry)
# Limit for workloads of many runs.
_MOST_LABELS = 6


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
    part = None
    if align is not None:
        counted = _counted(runs) if by == "row" else runs
        part = window(connection, counted, align)
        runs, base = _within(part, counted, runs), _within(part, counted, base)
        if baseline and not base:
            raise NoData(
                f"--baseline {baseline} cannot be the baseline: {', '.join(dict.fromkeys(part.left_out.values()))}"
            )
    entries = _entries(connection, runs, by, repeated, scope, simulated, part, further)
    base_entry = None
    if base:
        wanted = {_label(run, by, repeated) for run in base}
        if len(wanted) > 1:
            raise BadRequest(f"--baseline {baseline} names {len(wanted)} {by}s: {', '.join(sorted(wanted))}; name one")
        base_entry = next(entry for entry in entries if entry.label in wanted)
        entries = [_against(entry, base_entry) for entry in entries]
    return Comparison(by, tuple(entries), base_entry.label if base_entry else None, part)


def _label(run: RunInfo, by: str, repeated: Collection[str]) -> str:
    if by == "workload":
        return f"{run.experiment_id}/{run.workload}"
    return f"{run.label}@{run.attempt}" if by == "run" and run.label in repeated else run.label


def _entries(
    connection: Connection, runs: Sequence[RunInfo], by: str, repeated: Collection[str], scope: str | None,
    simulated: bool, part: Window | None, further: Sequence[Further],
) -> list[Entry]:  # fmt: skip
    ids = [run.run_id for run in runs]
    intervals = part.intervals if part else {}
    by_run: dict[str, list[Summary]] = {}
    for summary in (
        *summaries(connection, [run for run in ids if run not in intervals]),
        *summaries_between(connection, [intervals[run] for run in ids if run in intervals]),
    ):
        by_run.setdefault(summary.run_id, []).append(summary)
    software: dict[str, list[FinalMetric]] = {}
    for metric in final_metrics(connection, ids, {run: interval.followed_at for run, interval in intervals.items()}):
        software.setdefault(metric.run_id, []).append(metric)
    facts = gpu_facts(connection, ids)
    entries = [
        _run_entry(
            run, intervals.get(run.run_id), by_run.get(run.run_id, ()), facts[run.run_id], software.get(run.run_id, ()),
            scope, simulated=simulated,
        )
        for run in runs
    ]  # fmt: skip
    entries = [replace(entry, label=_label(entry.runs[0], "run", repeated)) for entry in entries]
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
        _row_entry(label, [entry for entry, _ in group]) if by == "row" else _workload_entry(label, group)
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
    return Entry(
        run.label, run.name, run.status, (run,), values, measured.scopes, final, measured.quantities,
        simulated=facts.simulated, energy_method=measured.energy_method, coverage=measured.coverage,
        gpu_coverage=measured.gpu_coverage, intervals=(interval,) if interval else (),
    )  # fmt: skip


def _counted(runs: Iterable[RunInfo]) -> list[RunInfo]:
    rows: dict[str, list[RunInfo]] = {}
    for run in runs:
        rows.setdefault(run.label, []).append(run)
    return [run for row in rows.values() for run in _finished(row)]


def _finished(row: Sequence[One]) -> Sequence[One]:
    # A failed attempt has part of the time and energy, so it does not count.
    return [one for one in row if one.status == "finished"] or row


def _within(part: Window, counted: Iterable[RunInfo], runs: Iterable[RunInfo]) -> list[RunInfo]:
    """Return the runs with a part of the window, and uncounted attempts of their rows."""
    rows = {run.label for run in counted if run.run_id in part.intervals}
    without = {run.run_id for run in counted} - part.intervals.keys()
    return [run for run in runs if run.label in rows and run.run_id not in without]


def _row_entry(label: str, group: Sequence[Entry]) -> Entry:
    counted = _finished(group)
    together = _together(label, counted, counted)
    found: dict[str, list[float]] = {}
    for entry in counted:
        for key, value in (*entry.values.items(), *entry.software.items()):
            if value is not None:
                found.setdefault(key, []).append(value)
    return replace(
        together,
        status=_status(group),
        runs=tuple(run for entry in group for run in entry.runs),
        values={key: statistics.fmean(found[key]) for key in together.values if key in found},
        deviations={key: statistics.stdev(some) for key, some in found.items() if len(some) > 1},
        counted=tuple(run.attempt for entry in counted for run in entry.runs),
    )


def _status(group: Iterable[Entry]) -> str:
    statuses = {entry.status for entry in group}
    return next((s for s in ("running", "failed", "timeout", "stopped") if s in statuses), "finished")


def _workload_entry(label: str, group: Sequence[tuple[Entry, Entry]]) -> Entry:
    """Return the aggregate of runs and their parts of shared amounts, with the makespan of simultaneous runs."""
    together = _together(label, [entry for entry, _ in group], [part for _, part in group])
    when = together.intervals or together.runs
    starts = [one.started_at for one in when if one.started_at is not None]
    ends = [one.ended_at for one in when if one.ended_at is not None]
    if len(ends) < len(together.runs):
        return together
    if len(found := list(passes(together.runs))) > 1:
        order = ", then ".join(_listed([run.full_label for run in some]) for some in found)
        reason = f"its rows' latest attempts did not run at the same time, but {order}"
        return replace(together, missing=(*together.missing, Missing("makespan_seconds", label, reason)))
    makespan = (max(ends) - min(starts)).total_seconds()
    return replace(together, values={**together.values, "makespan_seconds": makespan})


def _listed(labels: Sequence[str]) -> str:
    """Return the first of some labels, and how many more there are."""
    more = len(labels) - _MOST_LABELS
    return ", ".join(labels[:_MOST_LABELS]) + (f" and {more} more" if more > 0 else "")


def _together(label: str, group: Sequence[Entry], counted: Sequence[Entry]) -> Entry:
    """Return the aggregate of runs; `counted` are the same runs with their parts of shared amounts."""
    runs = tuple(run for entry in group for run in entry.runs)
    missing = (*(one for entry in counted for one in entry.missing), *_without_energy(group))
    keys = dict.fromkeys(key for entry in group for key in entry.values)
    keys = {key: None for key in keys if key not in {one.metric for one in missing}}
    found = {key: [entry.values[key] for entry in group if key in entry.values] for key in keys}
    amounts = {key: sum(entry.values.get(key, 0.0) for entry in counted) for key in keys if is_summed(key)}
    values = {key: amounts.get(key, sum(some) / len(some)) for key, some in found.items()}
    spread = {key: (min(some), max(some)) for key, some in found.items()}
    intervals = tuple(interval for entry in group for interval in entry.intervals)
    software: dict[str, float | None] = {}
    for key in dict.fromkeys(key for entry in group for key in entry.software):
        known = [value for entry in group if (value := entry.software.get(key)) is not None]
        software[key] = sum(known) / len(known) if known else None
        if known:
            spread = {**spread, key: (min(known), max(known))}
    scopes: dict[str, str] = {}
    for entry in group:  # the widest scope of the runs
        for key, scope in entry.scopes.items():
            scopes[key] = max(scopes.get(key, scope), scope, key=SCOPES.index)
    covered = [entry.gpu_coverage for entry in group if entry.gpu_coverage is not None]
    methods = sorted({entry.energy_method for entry in group if entry.energy_method})
    return Entry(
        label, ", ".join(dict.fromkeys(e.name for e in group)), _status(group), runs, values, scopes, software, spread=spread,
        simulated=any(entry.simulated for entry in group), energy_method="+".join(methods) or None,
        coverage=min(entry.coverage for entry in group), gpu_coverage=min(covered, default=None), intervals=intervals,
        target=group[0].target, missing=missing,
    )  # fmt: skip


def _without_energy(group: Sequence[Entry]) -> Iterable[Missing]:
    """Yield the runs on GPUs without an energy of their own, if others have one: the sum would lack a part."""
    if any(ENERGY_KEY in entry.values for entry in group):
        for entry in group:
            if ENERGY_KEY not in entry.values and entry.gpu_coverage is not None:
                yield Missing(ENERGY_KEY, entry.label, "no energy was measured that is its own")


def _against(entry: Entry, base: Entry) -> Entry:
    if entry is base:
        return entry
    changes = {}
    for mine, theirs in ((entry.values, base.values), (entry.software, base.software)):
        for key, value in mine.items():
            other = theirs.get(key)
            if is_of_energy(key) and entry.has_idle_energy != base.has_idle_energy:
                continue  # the difference would mostly be the idle energy
            if value is not None and other:
                changes[key] = value / other - 1
    return replace(entry, changes=changes)
