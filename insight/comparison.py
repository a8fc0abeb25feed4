"""Runs, or workloads, side by side, with differences against a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.errors import BadRequest, NoData
from insight.columns import COLUMNS, SCOPES, figures_of
from sql.database import Connection
from sql.selection import RunInfo, select_runs
from sql.summaries import FinalMetric, GpuFacts, Summary, final_metrics, gpu_facts, summaries

__all__ = ["Comparison", "Entry", "compare"]

_SUMMED = frozenset(column.key for column in COLUMNS if column.over == "sum")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a comparison: a run, or a workload with what its runs have together or on average.

    Attributes
    ----------
    figures
        By column, in SI units; see `insight.columns` for what a workload's are.
    spread
        Of a workload, the least and the greatest of its runs by column.
    scopes
        By column, the scope that the figure was measured in.
    software
        Final values of software metrics; of a workload, their mean.
    changes
        By column or software metric, the relative difference to the baseline: 0.1 is 10 % more.
    simulated
        Whether it ran on simulated GPUs.
    energy_method, gpu_coverage
        See `insight.columns.Figures`; of a workload, all methods joined by ``+``, and the least coverage.
    """

    label: str
    name: str
    status: str
    runs: tuple[RunInfo, ...]
    figures: Mapping[str, float]
    scopes: Mapping[str, str]
    software: Mapping[str, float | None]
    quantities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    changes: Mapping[str, float] = field(default_factory=dict)
    simulated: bool = False
    energy_method: str | None = None
    gpu_coverage: float | None = None

    @property
    def coverage(self) -> float:
        """The share of its duration in which its own processes were measured, 0 to 1."""
        measured = self.quantities.get("cpu_usage", {})
        duration = self.figures.get("duration_seconds")
        if measured.get("scope") != "process" or not duration:
            return 0.0
        return min(1.0, float(measured["seconds"] or 0.0) / duration)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Entries to be compared, all with the same columns where they have them; the baseline's label where there is one."""

    by: str
    entries: tuple[Entry, ...]
    baseline: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as it is written to JSON."""
        return {
            "by": self.by,
            "baseline": self.baseline,
            f"{self.by}s": [_run_dict(e) if self.by == "run" else _workload_dict(e) for e in self.entries],
        }


def compare(
    connection: Connection,
    selectors: Sequence[str],
    *,
    by: str = "run",
    baseline: str | None = None,
    scope: str | None = None,
    simulated: bool = False,
) -> Comparison:
    """Compare runs, or workloads by their runs.

    Parameters
    ----------
    by
        ``run`` or ``workload``.
    baseline
        A selector; by default nothing is the baseline.
    scope
        One of `insight.columns.SCOPES`; by default the narrowest that covers a run, for each quantity.
    simulated
        Whether power and energy of simulated GPUs count.

    Raises
    ------
    NoData
        Nothing that was selected has started.
    """
    runs = [run for run in select_runs(connection, selectors) if run.started_at is not None]
    base = [run for run in select_runs(connection, [baseline]) if run.started_at is not None] if baseline else []
    if not runs:
        raise NoData("none of the selected runs has started yet")
    entries = _entries(connection, [*base, *(run for run in runs if run not in base)], by, scope, simulated)
    base_entry = None
    if base:
        wanted = {_label(run, by) for run in base}
        if len(wanted) > 1:
            raise BadRequest(f"--baseline {baseline} names {len(wanted)} {by}s: {', '.join(sorted(wanted))}; name one")
        base_entry = next(entry for entry in entries if entry.label in wanted)
        entries = [_against(entry, base_entry) for entry in entries]
    return Comparison(by, tuple(entries), base_entry.label if base_entry else None)


def _label(run: RunInfo, by: str) -> str:
    return run.label if by == "run" else f"{run.experiment_id}/{run.workload}"


def _entries(
    connection: Connection, runs: Sequence[RunInfo], by: str, scope: str | None, simulated: bool
) -> list[Entry]:
    ids = [run.run_id for run in runs]
    by_run: dict[str, list[Summary]] = {}
    for summary in summaries(connection, ids):
        by_run.setdefault(summary.run_id, []).append(summary)
    software: dict[str, list[FinalMetric]] = {}
    for metric in final_metrics(connection, ids):
        software.setdefault(metric.run_id, []).append(metric)
    facts = gpu_facts(connection, ids)
    entries = [
        _run_entry(
            run, by_run.get(run.run_id, ()), facts[run.run_id], software.get(run.run_id, ()), scope, simulated=simulated
        )
        for run in runs
    ]
    if by == "run":
        return entries
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_label(entry.runs[0], by), []).append(entry)
    return [_workload_entry(label, group) for label, group in groups.items()]


def _run_entry(
    run: RunInfo, found: Iterable[Summary], facts: GpuFacts, software: Iterable[FinalMetric], scope: str | None, *,
    simulated: bool,
) -> Entry:  # fmt: skip
    measured = figures_of(found, facts, run.duration, scope, electric=simulated or not facts.simulated)
    figures = {**({} if run.duration is None else {"duration_seconds": run.duration}), **measured.values}
    final = {metric.key: metric.value for metric in software}
    return Entry(
        run.label, run.name, run.status, (run,), figures, measured.scopes, final, measured.quantities,
        simulated=facts.simulated, energy_method=measured.energy_method, gpu_coverage=measured.gpu_coverage,
    )  # fmt: skip


def _workload_entry(label: str, group: Sequence[Entry]) -> Entry:
    runs = tuple(run for entry in group for run in entry.runs)
    keys = dict.fromkeys(key for entry in group for key in entry.figures)
    values = {key: [entry.figures[key] for entry in group if key in entry.figures] for key in keys}
    figures = {key: sum(found) / (1 if key in _SUMMED else len(found)) for key, found in values.items()}
    spread = {key: (min(found), max(found)) for key, found in values.items()}
    starts = [run.started_at for run in runs if run.started_at is not None]
    ends = [run.ended_at for run in runs if run.ended_at is not None]
    if starts and len(ends) == len(runs):
        figures["makespan_seconds"] = (max(ends) - min(starts)).total_seconds()
    software: dict[str, float | None] = {}
    for key in dict.fromkeys(key for entry in group for key in entry.software):
        known = [value for entry in group if (value := entry.software.get(key)) is not None]
        software[key] = sum(known) / len(known) if known else None
        if known:
            spread = {**spread, key: (min(known), max(known))}
    statuses = {entry.status for entry in group}
    status = next((s for s in ("running", "failed", "timeout", "stopped") if s in statuses), "finished")
    scopes: dict[str, str] = {}
    for entry in group:  # the widest: a figure is no more the workload's own than it is each run's
        for key, scope in entry.scopes.items():
            scopes[key] = max(scopes.get(key, scope), scope, key=SCOPES.index)
    covered = [entry.gpu_coverage for entry in group if entry.gpu_coverage is not None]
    methods = sorted({entry.energy_method for entry in group if entry.energy_method})
    return Entry(
        label, ", ".join(dict.fromkeys(e.name for e in group)), status, runs, figures, scopes, software, spread=spread,
        simulated=any(entry.simulated for entry in group), energy_method="+".join(methods) or None,
        gpu_coverage=min(covered, default=None),
    )  # fmt: skip


def _against(entry: Entry, base: Entry) -> Entry:
    if entry is base:
        return entry
    changes = {}
    for mine, theirs in ((entry.figures, base.figures), (entry.software, base.software)):
        for key, value in mine.items():
            other = theirs.get(key)
            if value is not None and other:
                changes[key] = value / other - 1
    return replace(entry, changes=changes)


def _run_dict(entry: Entry) -> dict[str, Any]:
    [run] = entry.runs
    return {
        "run": entry.label,
        "run_id": run.run_id,
        "mlflow_run_id": run.mlflow_run_id,
        "attempt": run.attempt,
        "name": entry.name,
        "status": entry.status,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "params": run.params,
        "simulated": entry.simulated,
        **entry.figures,
        **{f"final_{key}": value for key, value in entry.software.items()},
        "coverage": entry.coverage,
        "gpu_coverage": entry.gpu_coverage,
        "gpu_energy_method": entry.energy_method,
        "scopes": entry.scopes,
        "software_metrics": entry.software,
        "quantities": entry.quantities,
        "changes": entry.changes,
    }


def _workload_dict(entry: Entry) -> dict[str, Any]:
    return {
        "workload": entry.label,
        "name": entry.name,
        "status": entry.status,
        "runs": [run.label for run in entry.runs],
        "simulated": entry.simulated,
        **entry.figures,
        **{f"final_{key}": value for key, value in entry.software.items()},
        "spread": {key: {"min": low, "max": high} for key, (low, high) in entry.spread.items()},
        "gpu_coverage": entry.gpu_coverage,
        "gpu_energy_method": entry.energy_method,
        "scopes": entry.scopes,
        "software_metrics": entry.software,
        "changes": entry.changes,
    }
