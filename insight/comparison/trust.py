"""Data quality of a comparison: coverage, throttling, and configurations that differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hypergauge.insight.comparison import neighbours
from hypergauge.insight.comparison.columns import COLUMNS, LEAST_COVERAGE
from hypergauge.insight.comparison.comparison import Comparison
from hypergauge.insight.comparison.neighbours import Changes
from hypergauge.sql.queries.notices import Fact, Notice, Reason, chart_notices, notices
from hypergauge.sql.queries.report import Quality, qualities
from hypergauge.sql.runs.calibrations import Calibration, calibrations
from hypergauge.sql.server.database import Connection

__all__ = ["Trust", "trust"]

# Notices of charts that apply to comparisons as well. A comparison marks scopes at each metric, and has its own
# coverage of the compared part.
_OF_CHARTS = (
    "not_finite",
    "sources_differ",
    "intervals_differ",
    "few_samples",
    "utilization_overstates",
    "throttled",
    "shared_resource",
    "other_programs",
    "other_gpu_processes",
    "energy_divided",
    "idle_power_unknown",
    "profiled",
    "watch_failed",
    "watch_gaps",
)
# The energy of a workload is a sum, however it was divided; its runs have no column for their status.
_OF_WORKLOADS = (*(code for code in _OF_CHARTS if code != "energy_divided"), "ended_early")
# The status of a row is that of one of its attempts.
_SHOWN = {"run": _OF_CHARTS, "row": (*_OF_CHARTS, "ended_early"), "workload": _OF_WORKLOADS}


@dataclass(frozen=True, slots=True)
class Trust:
    """Data quality of the runs of a comparison.

    Attributes
    ----------
    labels, qualities
        Labels and qualities by run id.
    changes
        Changes of neighbours by run id.
    notices
        Facts without which the comparison would mislead, each with all runs that it applies to.
    """

    labels: Mapping[str, str]
    qualities: Mapping[str, Quality]
    changes: Changes
    notices: tuple[Notice, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object, a supplement to that of the comparison."""
        rows = [{"run": label, **asdict(self.qualities[run])} for run, label in self.labels.items()]
        return {"quality": rows, "notices": [asdict(one) for one in self.notices]}


def trust(
    connection: Connection, comparison: Comparison, scope: str | None = None, metrics: Sequence[str] = ()
) -> Trust:
    """Return the data quality of the runs of a comparison.

    Parameters
    ----------
    metrics
        Chosen software metrics, quantities and columns, whose missing values are named.
    scope
        Scope of all metrics; by default each metric has its own.
    """
    runs = [run for entry in comparison.entries for run in entry.runs]
    attempts = Counter(run.label for run in runs)
    labels = {run.run_id: f"{run.label}@{run.attempt}" if attempts[run.label] > 1 else run.label for run in runs}
    found = {one.run_id: one for one in qualities(connection, list(labels))}
    shown = {key for entry in comparison.entries for key in entry.values}
    quantities = [column.quantity for column in COLUMNS if column.key in shown]
    charted = chart_notices(connection, list(labels), quantities, None if scope is None else [scope])
    changes = neighbours.of_comparison(connection, comparison)
    left_out = comparison.window.facts() if comparison.window else ()
    return Trust(
        labels,
        found,
        changes,
        (
            *notices(connection, (*left_out, *_how_measured(comparison, labels, found))),
            *notices(connection, _calibrated(connection, comparison, labels, found)),
            *notices(connection, (*_incomplete(comparison), *_missing(comparison), *_lacking(comparison, metrics))),
            *(one for one in charted if one.code in _SHOWN[comparison.by]),
            *notices(connection, neighbours.facts(comparison, changes)),
        ),
    )


def _how_measured(comparison: Comparison, labels: Mapping[str, str], found: Mapping[str, Quality]) -> Iterator[Fact]:
    """Yield a fact for each group of runs with the same exporters at similar intervals."""
    covered = {run.run_id: entry.coverage for entry in comparison.entries for run in entry.runs}
    groups: dict[tuple[tuple[str, ...], tuple[int | None, ...]], list[str]] = {}
    for run in labels:
        if run in found and (found[run].listeners or found[run].unmeasured):
            often = (found[run].interval_seconds, *map(found[run].intervals.get, found[run].listeners))
            similar = tuple(round(math.log2(seconds)) if seconds else None for seconds in often)
            groups.setdefault((tuple(found[run].listeners), similar), []).append(run)
    for (exporters, _), runs in groups.items():
        differing = [found[run].differing_intervals for run in runs]
        yield Fact(
            "measured" if len(groups) == 1 else "measured_differently",
            [labels[run] for run in runs],
            {
                "exporters": exporters,
                **({"intervals": differing[0]} if differing[0] and differing.count(differing[0]) == len(runs) else {}),
                "interval_seconds": [found[run].interval_seconds for run in runs],
                "coverage": [covered[run] for run in runs],
                "overhead": [found[run].overhead for run in runs],
            },
        )


def _calibrated(
    connection: Connection, comparison: Comparison, labels: Mapping[str, str], found: Mapping[str, Quality]
) -> Iterator[Fact]:
    """Yield the most that measuring cost, for runs on hosts where the same exporters or more were calibrated."""
    hosts = {run.run_id: run.host for entry in comparison.entries for run in entry.runs}
    known = calibrations(connection, set(hosts.values()))
    groups: dict[Calibration, list[str]] = {}
    for run in labels:
        if run in found and found[run].intervals:
            covering = [
                one for one in known if one.host == hosts[run] and one.is_narrow and one.covers(found[run].intervals)
            ]
            if covering:
                groups.setdefault(min(covering, key=lambda one: one.high), []).append(labels[run])
    for one, runs in groups.items():
        yield Fact(
            "measuring_costs",
            runs,
            {"most": max(one.high, 0.0), "command": one.command, "repetitions": one.repetitions},
        )


def _incomplete(comparison: Comparison) -> Iterator[Fact]:
    ended = [entry for entry in comparison.entries if entry.status != "running"]
    own = {entry.label: entry.coverage for entry in ended if entry.coverage is not None}
    gpus = {
        entry.label: entry.gpu_coverage
        for entry in ended
        if entry.gpu_coverage is not None and not all(run.chose_no_gpus for run in entry.runs)
    }
    for code, shares in (("partial_process_coverage", own), ("partial_gpu_coverage", gpus)):
        if low := {label: share for label, share in shares.items() if share < LEAST_COVERAGE}:
            yield Fact(code, list(low), {"shares": list(low.values())})


def _missing(comparison: Comparison) -> Iterator[Fact]:
    """Yield a fact for each reason and group of runs, with all metrics that are missing."""
    runs: dict[tuple[str, Reason], list[str]] = {}
    for one in dict.fromkeys(one for entry in comparison.entries for one in entry.missing):
        runs.setdefault((one.metric, one.reason), []).append(one.run)
    metrics: dict[tuple[tuple[str, ...], Reason], list[str]] = {}
    for (metric, reason), labels in runs.items():
        metrics.setdefault((tuple(labels), reason), []).append(metric)
    for (labels_, reason), lacking in metrics.items():
        yield Fact("missing_metrics", labels_, {"columns": lacking, **reason.as_dict()})


def _lacking(comparison: Comparison, metrics: Sequence[str]) -> Iterator[Fact]:
    """Yield a fact for each chosen metric that some entries lack without a reason of their own."""
    columns = {name: one.key for one in COLUMNS for name in (one.key, one.quantity)}
    logged = {key for entry in comparison.entries for key in entry.software}
    measured = columns.keys() | {name for entry in comparison.entries for name in entry.quantities}
    for name in dict.fromkeys(metrics):
        key = columns.get(name, name)
        if name in logged:
            without = [entry.label for entry in comparison.entries if name not in entry.software]
        elif name in measured:
            without = [
                entry.label
                for entry in comparison.entries
                if entry.value(key) is None and key not in {one.metric for one in entry.missing}
            ]
        else:
            continue
        if without:
            yield Fact("not_logged" if name in logged else "not_measured", without, {"metrics": [name]})
