"""Runs, or workloads, side by side, with differences against a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.errors import BadRequest, NoData
from sql.database import Connection
from sql.selection import RunInfo, select_runs
from sql.summaries import FinalMetric, Summary, final_metrics, summaries

__all__ = ["SCOPES", "Column", "Comparison", "Entry", "compare"]

# The narrowest first: a host's figure is never passed off as a run's own where the run has one.
SCOPES = ("process", "instance", "device", "host")


@dataclass(frozen=True, slots=True)
class Column:
    """A figure that is compared: which statistic of which quantity, under which name and in which unit."""

    key: str
    quantity: str
    statistic: str
    unit: str


# What a comparison shows where the runs have it. `own` quantities count in the scope of the run alone.
_COLUMNS = (
    Column("cpu_utilization", "cpu_usage", "mean", "cores"),
    Column("cpu_seconds", "cpu_usage", "total", "seconds"),
    Column("peak_memory_bytes", "memory_peak", "max", "bytes"),
    Column("disk_read_bytes", "disk_read", "total", "bytes"),
    Column("disk_write_bytes", "disk_write", "total", "bytes"),
    Column("gpu_utilization", "gpu_utilization", "mean", "ratio"),
    Column("gpu_sm_active", "gpu_sm_active", "mean", "ratio"),
    Column("gpu_peak_memory_bytes", "gpu_memory_used", "max", "bytes"),
    Column("gpu_power_watts", "gpu_power", "mean", "watts"),
    Column("gpu_energy_joules", "gpu_power", "total", "joules"),
)
# A column that all runs have in common only at the width of a host says nothing about a run.
_OWN = frozenset({"cpu_utilization", "cpu_seconds", "disk_read_bytes", "disk_write_bytes", "peak_memory_bytes"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a comparison: a run, or a workload with what its runs have on average.

    Attributes
    ----------
    figures
        By column: seconds, cores, bytes … as `Column.unit` says.
    spread
        Of a workload, the least and the greatest of its runs by column.
    scopes
        By column, the scope that the figure was measured in.
    software
        Final values of software metrics; of a workload, their mean.
    changes
        By column or software metric, the relative difference to the baseline: 0.1 is 10 % more.
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
) -> Comparison:
    """Compare runs, or workloads by their runs.

    Parameters
    ----------
    by
        ``run`` or ``workload``.
    baseline
        A selector; by default nothing is the baseline.
    scope
        One of `SCOPES`; by default the narrowest that a run has for each quantity.

    Raises
    ------
    NoData
        Nothing that was selected has started.
    """
    runs = [run for run in select_runs(connection, selectors) if run.started_at is not None]
    base = [run for run in select_runs(connection, [baseline]) if run.started_at is not None] if baseline else []
    if not runs:
        raise NoData("none of the selected runs has started yet")
    entries = _entries(connection, [*base, *(run for run in runs if run not in base)], by, scope)
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


def _entries(connection: Connection, runs: Sequence[RunInfo], by: str, scope: str | None) -> list[Entry]:
    ids = [run.run_id for run in runs]
    by_run: dict[str, list[Summary]] = {}
    for summary in summaries(connection, ids):
        by_run.setdefault(summary.run_id, []).append(summary)
    software: dict[str, list[FinalMetric]] = {}
    for metric in final_metrics(connection, ids):
        software.setdefault(metric.run_id, []).append(metric)
    entries = [_run_entry(run, by_run.get(run.run_id, ()), software.get(run.run_id, ()), scope) for run in runs]
    if by == "run":
        return entries
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_label(entry.runs[0], by), []).append(entry)
    return [_workload_entry(label, group) for label, group in groups.items()]


def _run_entry(run: RunInfo, found: Iterable[Summary], software: Iterable[FinalMetric], scope: str | None) -> Entry:
    chosen: dict[str, Summary] = {}
    for summary in sorted(found, key=lambda one: SCOPES.index(one.scope)):
        if scope in (None, summary.scope):
            chosen.setdefault(summary.quantity, summary)
    figures: dict[str, float] = {} if run.duration is None else {"duration_seconds": run.duration}
    scopes: dict[str, str] = {}
    for column in _COLUMNS:
        one = chosen.get(column.quantity)
        value = getattr(one, column.statistic) if one else None
        if one is None or value is None or (column.key in _OWN and scope is None and one.scope == "host"):
            continue
        figures[column.key], scopes[column.key] = value, one.scope
    quantities = {
        quantity: {
            name: getattr(one, name)
            for name in ("unit", "scope", "n", "seconds", "mean", "min", "max", "p50", "p95", "total")
        }
        for quantity, one in sorted(chosen.items())
    }
    final = {metric.key: metric.value for metric in software}
    return Entry(run.label, run.name, run.status, (run,), figures, scopes, final, quantities)


def _workload_entry(label: str, group: Sequence[Entry]) -> Entry:
    runs = tuple(run for entry in group for run in entry.runs)
    keys = dict.fromkeys(key for entry in group for key in entry.figures)
    values = {key: [entry.figures[key] for entry in group if key in entry.figures] for key in keys}
    figures = {key: sum(found) / len(found) for key, found in values.items()}
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
    scopes = {key: scope for entry in group for key, scope in entry.scopes.items()}
    return Entry(
        label, ", ".join(dict.fromkeys(e.name for e in group)), status, runs, figures, scopes, software, spread=spread
    )


def _against(entry: Entry, base: Entry) -> Entry:
    if entry is base:
        return entry
    changes = {}
    for mine, theirs in ((entry.figures, base.figures), (entry.software, base.software)):
        for key, value in mine.items():
            other = theirs.get(key)
            if value is not None and other:
                changes[key] = value / other - 1
    return Entry(
        entry.label, entry.name, entry.status, entry.runs, entry.figures, entry.scopes, entry.software,
        entry.quantities, entry.spread, changes,
    )  # fmt: skip


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
        **entry.figures,
        **{f"final_{key}": value for key, value in entry.software.items()},
        "coverage": entry.coverage,
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
        **entry.figures,
        **{f"final_{key}": value for key, value in entry.software.items()},
        "spread": {key: {"min": low, "max": high} for key, (low, high) in entry.spread.items()},
        "scopes": entry.scopes,
        "software_metrics": entry.software,
        "changes": entry.changes,
    }
