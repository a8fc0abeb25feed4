"""Aggregates of compared runs: rows over their attempts, and workloads."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from hypergauge.insight.comparison.columns import (
    ENERGY_KEY,
    PARTS,
    SCOPES,
    is_of_gpu,
    is_of_parts,
    is_of_script,
    is_summed,
)
from hypergauge.insight.comparison.energy import together as with_energy
from hypergauge.insight.comparison.entry import Entry, Missing
from hypergauge.insight.sharing.concurrent_runs import passes
from hypergauge.sql.queries.notices import Reason
from hypergauge.sql.queries.report import Work
from hypergauge.sql.runs.selection import RunInfo

__all__ = ["finished", "row_entry", "workload_entry"]

One = TypeVar("One", RunInfo, Entry)
Lacks = Callable[[Entry, Sequence[Entry]], bool]


def finished(row: Sequence[One]) -> Sequence[One]:
    """Return the attempts of a row that count: a failed one has part of the time and energy only."""
    return [one for one in row if one.status == "finished"] or row


def row_entry(label: str, group: Sequence[Entry]) -> Entry:
    """Return the mean of a row's attempts, with standard deviations. A mean needs a value of each counted attempt.

    The status is that of the latest attempt.
    """
    counted = finished(group)
    together = _together(label, counted, counted)
    found: dict[str, list[float]] = {}
    for entry in counted:
        for key, value in (*entry.values.items(), *entry.software.items()):
            if value is not None:
                found.setdefault(key, []).append(value)
    together = replace(together, values={key: statistics.fmean(found[key]) for key in together.values})
    attempts = [(run.attempt, run.status) for entry in group for run in entry.runs]
    return replace(
        with_energy(together, counted),
        status=max(attempts)[1],
        runs=tuple(run for entry in group for run in entry.runs),
        deviations={key: statistics.stdev(some) for key, some in found.items() if len(some) == len(counted) > 1},
        energy_divided=any(entry.energy_divided for entry in counted),
        counted=tuple(run.attempt for entry in counted for run in entry.runs),
    )


def _status(group: Iterable[Entry]) -> str:
    statuses = {entry.status for entry in group}
    return next((s for s in ("running", "failed", "timeout", "stopped") if s in statuses), "finished")


def workload_entry(label: str, group: Sequence[tuple[Entry, Entry]], works: Mapping[str, Work]) -> Entry:
    """Return the aggregate of runs and their parts of shared amounts, with the makespan of simultaneous runs.

    A mean needs a value of each run. A run of another program than those with a software metric has none to log.
    """
    entries = [entry for entry, _ in group]

    def lacks(entry: Entry, having: Sequence[Entry]) -> bool:
        programs = {works[run.run_id].program for one in having for run in one.runs}
        return any(works[run.run_id].program in programs for run in entry.runs)

    together = with_energy(_together(label, entries, [part for _, part in group], lacks), entries)
    when = together.intervals or together.runs
    starts = [one.started_at for one in when if one.started_at is not None]
    ends = [one.ended_at for one in when if one.ended_at is not None]
    if len(ends) < len(together.runs):
        return together
    if len(found := list(passes(together.runs))) > 1:
        reason = Reason("not_simultaneous", {"passes": [[run.full_label for run in some] for some in found]})
        return replace(together, missing=(*together.missing, Missing("makespan_seconds", label, reason)))
    makespan = (max(ends) - min(starts)).total_seconds()
    return replace(together, values={**together.values, "makespan_seconds": makespan})


def _together(label: str, group: Sequence[Entry], counted: Sequence[Entry], lacks: Lacks | None = None) -> Entry:
    """Return the aggregate of runs.

    Parameters
    ----------
    counted
        The same runs with their parts of shared amounts.
    lacks
        Whether a run without a value that the script gives should have it, as those that have it; by default each should.
    """
    runs = tuple(run for entry in group for run in entry.runs)
    missing = (*(one for entry in counted for one in entry.missing), *_without_energy(group))
    missing = (
        *missing,
        *_without_value(group, {one.metric for one in missing}, lacks),
        *_without_last_value(group, lacks),
    )
    keys = dict.fromkeys(key for entry in group for key in entry.values)
    without = {one.metric for one in missing}
    found = {key: [entry.values[key] for entry in group if key in entry.values] for key in keys if key not in without}
    amounts = {key: sum(entry.values.get(key, 0.0) for entry in counted) for key in found if is_summed(key)}
    values = {key: amounts.get(key, sum(some) / len(some)) for key, some in found.items()}
    spread = {key: (min(some), max(some)) for key, some in found.items()}
    intervals = tuple(interval for entry in group for interval in entry.intervals)
    software: dict[str, float | None] = {}
    for key in dict.fromkeys(key for entry in group for key in entry.software):
        logged = [entry.software[key] for entry in group if key in entry.software]
        finite = [value for value in logged if value is not None]
        if len(finite) < len(logged):
            software[key] = None
        elif key not in without:
            software[key] = sum(finite) / len(finite)
            spread = {**spread, key: (min(finite), max(finite))}
    scopes: dict[str, str] = {}
    for entry in group:  # the widest scope of the runs
        for key, scope in entry.scopes.items():
            scopes[key] = max(scopes.get(key, scope), scope, key=SCOPES.index)
    own = [entry.coverage for entry in group if entry.coverage is not None]
    covered = [entry.gpu_coverage for entry in group if entry.gpu_coverage is not None]
    methods = sorted({entry.energy_method for entry in group if entry.energy_method})
    host_methods = sorted({entry.host_energy_method for entry in group if entry.host_energy_method})
    return Entry(
        label, ", ".join(dict.fromkeys(e.name for e in group)), _status(group), runs, values, scopes, software, spread=spread,
        simulated=any(entry.simulated for entry in group), energy_method="+".join(methods) or None,
        host_energy_method="+".join(host_methods) or None,
        coverage=min(own, default=None), gpu_coverage=min(covered, default=None), intervals=intervals,
        incomplete=frozenset(key for entry in group for key in entry.incomplete),
        target=group[0].target, missing=missing,
    )  # fmt: skip


def _without_energy(group: Sequence[Entry]) -> Iterable[Missing]:
    """Yield the runs without an energy of their own, if others have one: the sum would lack a part."""
    for key in PARTS:
        if any(key in entry.values for entry in group):
            for entry in group:
                # A run without GPUs has no energy of one.
                if key not in entry.values and (key != ENERGY_KEY or entry.gpu_coverage is not None):
                    yield Missing(key, entry.label, Reason("no_own_energy"))


def _without_value(group: Sequence[Entry], known: Collection[str], lacks: Lacks | None) -> Iterable[Missing]:
    """Yield the runs without a value that others have: the mean of those would pass for that of all."""
    for key in dict.fromkeys(key for entry in group for key in entry.values):
        if key in known or is_of_parts(key):  # which are named by their parts
            continue
        of_all = lacks is None or not is_of_script(key)
        # A run without GPUs has no value of one.
        without = [one for one in group if key not in one.values and not (is_of_gpu(key) and one.gpu_coverage is None)]
        having = [one for one in group if key in one.values]
        yield from (
            Missing(key, one.label, Reason("value_not_measured"))
            for one in without
            if of_all or (lacks and lacks(one, having))
        )


def _without_last_value(group: Sequence[Entry], lacks: Lacks | None) -> Iterable[Missing]:
    """Yield the runs whose last value of a software metric was not finite, or that did not log it."""
    for key in dict.fromkeys(key for entry in group for key in entry.software):
        having = [entry for entry in group if key in entry.software]
        for entry in group:
            if entry in having and entry.software[key] is None:
                yield Missing(key, entry.label, Reason("value_not_finite"))
            elif entry not in having and (lacks is None or lacks(entry, having)):
                yield Missing(key, entry.label, Reason("value_not_logged"))
