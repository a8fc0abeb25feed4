"""Data quality of a comparison: coverage, throttling, and configurations that differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hypergauge.insight.comparison.columns import COLUMNS
from hypergauge.insight.comparison.comparison import Comparison
from hypergauge.insight.remarks import listed
from hypergauge.sql.queries.charts import notices
from hypergauge.sql.queries.report import Quality, qualities
from hypergauge.sql.server.database import Connection

__all__ = ["Trust", "trust"]

# Below this share of a run's time its means and totals are said to be incomplete.
_LEAST_COVERAGE = 0.9
# What is said of charts and comparisons alike. The rest of the notices is of charts alone, or a comparison marks it at each
# figure (scopes) or says it of the part that is compared (coverage).
_ABOUT = ("source", "interval", "meaning", "throttled", "shared", "◆ profiled")


@dataclass(frozen=True, slots=True)
class Trust:
    """Data quality of the runs of a comparison.

    Attributes
    ----------
    labels, qualities
        By run id.
    remarks
        Sentences that belong beside the comparison, of all runs that they hold for together.
    """

    labels: Mapping[str, str]
    qualities: Mapping[str, Quality]
    remarks: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is written to JSON, beside the comparison."""
        rows = [{"run": label, **asdict(self.qualities[run])} for run, label in self.labels.items()]
        return {"quality": rows, "remarks": self.remarks}


def trust(connection: Connection, comparison: Comparison, scope: str | None = None) -> Trust:
    """Return how the runs of a comparison were measured, and what has to be known before they are compared.

    Parameters
    ----------
    scope
        The scope of all figures; by default each has its own.
    """
    runs = [run for entry in comparison.entries for run in entry.runs]
    attempts = Counter(run.label for run in runs)
    labels = {run.run_id: f"{run.label}@{run.attempt}" if attempts[run.label] > 1 else run.label for run in runs}
    found = {one.run_id: one for one in qualities(connection, list(labels))}
    shown = {key for entry in comparison.entries for key in entry.figures}
    quantities = [column.quantity for column in COLUMNS if column.key in shown]
    said = notices(connection, list(labels), quantities, None if scope is None else [scope])
    return Trust(
        labels,
        found,
        (
            *_how_measured(comparison, labels, found),
            *_incomplete(comparison),
            *_missing(comparison),
            *(sentence for about, sentence in said if about in _ABOUT),
        ),
    )


def _how_measured(comparison: Comparison, labels: Mapping[str, str], found: Mapping[str, Quality]) -> Iterator[str]:
    """Yield a sentence for all runs that were measured by the same exporters about as often."""
    covered = {run.run_id: entry.coverage for entry in comparison.entries for run in entry.runs}
    groups: dict[tuple[str, int | None], list[str]] = {}
    for run in labels:
        if run in found and found[run].listeners:
            # A run's first and last sample stand for less, which shows in the mean of a short one.
            often = round(math.log2(seconds)) if (seconds := found[run].interval_seconds) else None
            groups.setdefault((_words(found[run].listeners), often), []).append(run)
    for (listeners, _), runs in groups.items():
        whose = f"{listed([labels[run] for run in runs])}: " if len(groups) > 1 else ""
        intervals = [seconds for run in runs if (seconds := found[run].interval_seconds)]
        every = f"every {_range(intervals, '.2g')} s " if intervals else ""
        sentence = f"{whose}measured {every}by {listeners}, {_range([covered[run] for run in runs], '.0%')} of the time"
        costs = [cost for run in runs if (cost := found[run].overhead) is not None]
        if costs:
            sentence += f"; the exporters took {_range(costs, '.1%')} of the host's cores"
        yield f"{sentence}."


def _incomplete(comparison: Comparison) -> Iterator[str]:
    ended = [entry for entry in comparison.entries if entry.status != "running"]
    own = {entry.label: entry.coverage for entry in ended}
    gpus = {entry.label: entry.gpu_coverage for entry in ended if entry.gpu_coverage is not None}
    for what, shares in (("the processes", own), ("the GPUs", gpus)):
        low = [f"{label} ({share:.0%})" for label, share in shares.items() if share < _LEAST_COVERAGE]
        if low:
            yield f"{what} were measured for a part of the time only in {listed(low)}."


def _missing(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each reason, with all figures that some runs lack for it."""
    runs: dict[tuple[str, str], list[str]] = {}
    for one in dict.fromkeys(one for entry in comparison.entries for one in entry.missing):
        runs.setdefault((one.figure, one.reason), []).append(one.run)
    figures: dict[tuple[str, str], list[str]] = {}
    for (figure, reason), labels in runs.items():
        figures.setdefault((listed(labels), reason), []).append(figure)
    for (labels_, reason), lacking in figures.items():
        yield f"{labels_}: no {' and no '.join(lacking)}: {reason}."


def _range(figures: list[float], form: str) -> str:
    least, most = format(min(figures), form), format(max(figures), form)
    return most if least == most else f"{least} to {most}"


def _words(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
