"""Row of a comparison, and its JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypergauge.insight.comparison.columns import WHOLE_GPU
from hypergauge.sql.queries.charts.axes import Interval
from hypergauge.sql.queries.notices import Reason
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Entry", "Further", "Missing", "Span"]

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Missing:
    """A missing value of a run with its reason."""

    metric: str
    run: str
    reason: Reason

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"metric": self.metric, "run": self.run, **self.reason.as_dict()}


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a comparison: a run, or the aggregate of a row's attempts or a workload's runs.

    Attributes
    ----------
    values
        Values by column in SI units; `hypergauge.insight.comparison.columns` defines those of a workload.
    spread
        Minimum and maximum over the runs of a row or workload, by column.
    deviations
        Sample standard deviation over the attempts of a row, by column or software metric.
    counted
        Attempts in the mean of a row: the finished ones, if any.
    scopes
        Scope of the measurement by column.
    software
        Final values of software metrics by name, which is none of a column; means for a row or workload.
    diverged
        Software metrics of a run whose last value was NaN or infinite, at the end of the whole run and not of its part.
    changes
        Relative difference to the baseline by column or software metric: 0.1 is 10 % more. Values of a run that has not finished
        are those of a part, which have none.
    of_other_work
        The differences to a baseline that did other work.
    simulated
        Whether it ran on simulated GPUs.
    target
        The target of time and energy to it.
    missing
        Missing values with reasons; a row or workload lacks what one of its runs lacks.
    intervals
        Times of the runs' parts, if the comparison has a window.
    counted_times
        Times in which shared values count for this run of a workload.
    energy_divided
        Whether its energy is an equal part of that of several processes; never that of a workload, which is a sum.
    energy_parts
        Parts of its total energy: of ``gpu``, ``cpu``, ``dram``, or ``system`` for all of them.
    host_energy_method
        The exporter's method of attribution of the others than the GPU's.
    energy_method, coverage, gpu_coverage, incomplete
        See `hypergauge.insight.comparison.columns.ColumnValues`; of a workload, all methods joined by ``+``, the least coverage, and
        the columns that are incomplete for any of its runs.
        The coverage is ``None`` if rows chose exporters without that of processes.
    """

    label: str
    name: str
    status: str
    runs: tuple[RunInfo, ...]
    values: Mapping[str, float]
    scopes: Mapping[str, str]
    software: Mapping[str, float | None]
    quantities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    deviations: Mapping[str, float] = field(default_factory=dict)
    counted: tuple[int, ...] = ()
    changes: Mapping[str, float] = field(default_factory=dict)
    of_other_work: frozenset[str] = frozenset()
    simulated: bool = False
    energy_method: str | None = None
    energy_divided: bool = False
    energy_parts: tuple[str, ...] = ()
    host_energy_method: str | None = None
    coverage: float | None = 0.0
    gpu_coverage: float | None = None
    incomplete: frozenset[str] = frozenset()
    intervals: tuple[Interval, ...] = ()
    target: str | None = None
    missing: tuple[Missing, ...] = ()
    counted_times: tuple[Span, ...] | None = None
    diverged: frozenset[str] = frozenset()

    @property
    def span(self) -> Span:
        """Start and end of the values of a run; a running one ends now."""
        if self.intervals:
            return self.intervals[0].started_at, self.intervals[0].ended_at
        [run] = self.runs
        assert run.started_at is not None
        return run.started_at, run.ended_at or datetime.now(UTC)

    def value(self, key: str) -> float | None:
        """Return the value of a column or a software metric; ``None`` if there is none."""
        return self.values.get(key, self.software.get(key))

    @property
    def finished(self) -> bool:
        """Return whether its values are those of whole runs: of a row those of the counted attempts."""
        return all(run.status == "finished" for run in self.runs if not self.counted or run.attempt in self.counted)

    @property
    def profiled(self) -> tuple[str, ...]:
        """Distinct profilers of its runs."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.profilers.split("+") if name))

    @property
    def has_idle_energy(self) -> bool:
        """Return whether its energy includes idle energy of the GPUs."""
        return WHOLE_GPU in (self.energy_method or "").split("+")

    def as_dict(self, by: str) -> dict[str, Any]:
        """Return the JSON object for a comparison by ``run``, ``row`` or ``workload``."""
        return _BY[by](self)


# A function that adds values to the entries of runs before their aggregation.
Further = Callable[[Connection, Sequence[Entry]], list[Entry]]


def _run(entry: Entry) -> dict[str, Any]:
    [run] = entry.runs
    return {
        "run": entry.label,
        "run_id": run.run_id,
        "mlflow_run_id": run.mlflow_run_id,
        "attempt": run.attempt,
        "name": entry.name,
        "owner": run.owner,
        "note": run.note,
        "job": run.job,
        "accounting": run.accounting,
        "status": entry.status,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "params": run.params,
        "window": _interval(entry.intervals[0]) if entry.intervals else None,
        "simulated": entry.simulated,
        "profiled": entry.profiled,
        **entry.values,
        **{f"final_{key}": value for key, value in entry.software.items()},
        "coverage": entry.coverage,
        "gpu_coverage": entry.gpu_coverage,
        "incomplete": sorted(entry.incomplete),
        "gpu_energy_method": entry.energy_method,
        "host_energy_method": entry.host_energy_method,
        "energy_parts": entry.energy_parts,
        "target": entry.target,
        "missing": [one.as_dict() for one in entry.missing],
        "scopes": entry.scopes,
        "software_metrics": entry.software,
        "quantities": entry.quantities,
        "changes": entry.changes,
        "changes_of_other_work": sorted(entry.of_other_work),
    }


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "row": entry.label,
        **_group(entry),
        "attempts": [run.attempt for run in entry.runs],
        "counted_attempts": entry.counted,
        "deviations": entry.deviations,
    }


def _workload(entry: Entry) -> dict[str, Any]:
    return {"workload": entry.label, **_group(entry), "runs": [run.label for run in entry.runs]}


def _group(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "status": entry.status,
        "windows": {interval.run_id: _interval(interval) for interval in entry.intervals},
        "simulated": entry.simulated,
        "profiled": entry.profiled,
        **entry.values,
        **{f"final_{key}": value for key, value in entry.software.items()},
        "spread": {key: {"min": low, "max": high} for key, (low, high) in entry.spread.items()},
        "coverage": entry.coverage,
        "gpu_coverage": entry.gpu_coverage,
        "incomplete": sorted(entry.incomplete),
        "gpu_energy_method": entry.energy_method,
        "host_energy_method": entry.host_energy_method,
        "energy_parts": entry.energy_parts,
        "target": entry.target,
        "missing": [one.as_dict() for one in entry.missing],
        "scopes": entry.scopes,
        "software_metrics": entry.software,
        "changes": entry.changes,
        "changes_of_other_work": sorted(entry.of_other_work),
    }


def _interval(interval: Interval) -> dict[str, Any]:
    times = {"started_at": interval.started_at, "ended_at": interval.ended_at, "seconds": interval.seconds}
    return {"first": interval.first, "last": interval.last, **times}


_BY = {"run": _run, "row": _row, "workload": _workload}
