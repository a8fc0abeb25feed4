"""Line of a comparison, and its JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypergauge.insight.comparison.columns import WHOLE_GPU
from hypergauge.sql.queries.axes import Stretch
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Entry", "Further", "Missing", "Span"]

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure that a run should have, and why it has none."""

    figure: str
    run: str
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a comparison: a run, or what the attempts of a row or the runs of a workload have together.

    Attributes
    ----------
    figures
        By column, in SI units; see `hypergauge.insight.comparison.columns` for what a workload's are.
    spread
        Of a row or a workload, the least and the greatest of its runs by column.
    deviations
        Of a row, the standard deviation over its attempts (that of a sample) by column or software metric, where two of
        them have it.
    counted
        Of a row, the attempts that its figures are the mean of: those that finished, where any has.
    scopes
        By column, the scope that the figure was measured in.
    software
        Final values of software metrics; of a row or a workload, their mean.
    changes
        By column or software metric, the relative difference to the baseline: 0.1 is 10 % more.
    simulated
        Whether it ran on simulated GPUs.
    target
        What the time and the energy to a target are to.
    missing
        Figures that it lacks; a row or a workload has none that one of its runs lacks so.
    stretches
        Where figures are those of a part of each run, the times that these parts took.
    counted_times
        Where some of what a run shares counts as another's of its workload, the times in which it counts as its own.
    energy_method, coverage, gpu_coverage
        See `hypergauge.insight.comparison.columns.Figures`; of a workload, all methods joined by ``+``, and the least coverage.
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
    deviations: Mapping[str, float] = field(default_factory=dict)
    counted: tuple[int, ...] = ()
    changes: Mapping[str, float] = field(default_factory=dict)
    simulated: bool = False
    energy_method: str | None = None
    coverage: float = 0.0
    gpu_coverage: float | None = None
    stretches: tuple[Stretch, ...] = ()
    target: str | None = None
    missing: tuple[Missing, ...] = ()
    counted_times: tuple[Span, ...] | None = None

    @property
    def span(self) -> Span:
        """From when to when the figures of a run are; one that goes on ends now."""
        if self.stretches:
            return self.stretches[0].started_at, self.stretches[0].ended_at
        [run] = self.runs
        assert run.started_at is not None
        return run.started_at, run.ended_at or datetime.now(UTC)

    @property
    def profiled(self) -> tuple[str, ...]:
        """The profilers that its runs were under, each once."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.profilers.split("+") if name))

    @property
    def has_idle_energy(self) -> bool:
        """Return whether its energy is all that its GPUs used, with what they draw when they have nothing to do."""
        return WHOLE_GPU in (self.energy_method or "").split("+")

    def as_dict(self, by: str) -> dict[str, Any]:
        """Return the line of a comparison by ``run``, ``row`` or ``workload`` as it is written to JSON."""
        return _BY[by](self)


# What adds figures to the entries of runs, before they are put together.
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
        "window": _stretch(entry.stretches[0]) if entry.stretches else None,
        "simulated": entry.simulated,
        "profiled": entry.profiled,
        **entry.figures,
        **{f"final_{key}": value for key, value in entry.software.items()},
        "coverage": entry.coverage,
        "gpu_coverage": entry.gpu_coverage,
        "gpu_energy_method": entry.energy_method,
        "target": entry.target,
        "missing": [asdict(one) for one in entry.missing],
        "scopes": entry.scopes,
        "software_metrics": entry.software,
        "quantities": entry.quantities,
        "changes": entry.changes,
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
        "windows": {stretch.run_id: _stretch(stretch) for stretch in entry.stretches},
        "simulated": entry.simulated,
        "profiled": entry.profiled,
        **entry.figures,
        **{f"final_{key}": value for key, value in entry.software.items()},
        "spread": {key: {"min": low, "max": high} for key, (low, high) in entry.spread.items()},
        "coverage": entry.coverage,
        "gpu_coverage": entry.gpu_coverage,
        "gpu_energy_method": entry.energy_method,
        "target": entry.target,
        "missing": [asdict(one) for one in entry.missing],
        "scopes": entry.scopes,
        "software_metrics": entry.software,
        "changes": entry.changes,
    }


def _stretch(stretch: Stretch) -> dict[str, Any]:
    times = {"started_at": stretch.started_at, "ended_at": stretch.ended_at, "seconds": stretch.seconds}
    return {"first": stretch.first, "last": stretch.last, **times}


_BY = {"run": _run, "row": _row, "workload": _workload}
