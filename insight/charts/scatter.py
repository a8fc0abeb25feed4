"""Results of runs against one of their parameters."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hypergauge.core.errors import NoData
from hypergauge.insight.charts.bars import Bar, bars
from hypergauge.insight.charts.parameters import in_order, logarithmic, number, parameter
from hypergauge.insight.part import Part
from hypergauge.sql.queries.notices import Notice
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Point", "Scatter", "scatter"]


@dataclass(frozen=True, slots=True)
class Point:
    """Result of a run, or of the attempts of its row.

    Attributes
    ----------
    bar
        Its latest attempt; `value`, `low` and `high` are the mean, the minimum and the maximum over the attempts.
    text
        Value of the parameter.
    ended_early
        Whether none of the attempts has finished or is running.
    """

    bar: Bar
    text: str
    value: float
    low: float
    high: float
    attempts: int
    ended_early: bool


@dataclass(frozen=True, slots=True)
class Scatter:
    """Results against a parameter.

    Attributes
    ----------
    categories
        Values of the parameter in order; empty where they are several numbers.
    logarithmic
        Whether the numbers span more than two decades.
    """

    parameter: str
    metrics: tuple[str, ...]
    categories: tuple[str, ...]
    logarithmic: bool
    points: tuple[Point, ...]
    left_out: tuple[str, ...]
    notices: tuple[Notice, ...]
    labels: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        points = [
            {
                "label": one.bar.label, "metric": one.bar.metric, "unit": one.bar.unit, "scope": one.bar.scope, "x": one.text,
                "value": one.value, "low": one.low, "high": one.high, "attempts": one.attempts,
                "ended_early": one.ended_early, **asdict(one.bar.style),
            }
            for one in self.points
        ]  # fmt: skip
        notices = [asdict(one) for one in self.notices]
        return {"parameter": self.parameter, "points": points, "left_out": self.left_out, "notices": notices}


def scatter(
    connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str], name: str, *,
    scopes: Sequence[str] | None = None, part: Part | None = None,
) -> Scatter:  # fmt: skip
    """Return the mean of each quantity, or the last value of each software metric, against the parameter `name`.

    Parameters
    ----------
    runs
        Runs with all their attempts. Attempts that ended early do not count where another one of the row did not.

    Raises
    ------
    BadRequest
        The runs have no such parameter or metric.
    NoData
        No run has both.
    """
    values = parameter(runs, name)
    counted = _counted(runs)
    found = bars(connection, counted, metrics, scopes=scopes, max_series=len(counted), part=part)
    by_id = {run.run_id: run for run in counted}
    attempts: dict[tuple[str, str, str], list[Bar]] = {}
    for bar in found.bars:
        attempts.setdefault((bar.metric, bar.scope, by_id[bar.runs[0]].label), []).append(bar)
    having = {(bar.metric, bar.runs[0]) for bar in found.bars}
    # The attempts with a value are no sample of all of a row.
    incomplete = {
        (metric, run.label) for run in counted for metric in found.metrics if (metric, run.run_id) not in having
    }
    points = tuple(
        _point(some, by_id[some[-1].runs[0]], values[some[-1].runs[0]])
        for (metric, _, label), some in attempts.items()
        if some[-1].runs[0] in values and (metric, label) not in incomplete
    )
    if not points:
        raise NoData(f"no run with {' or '.join(found.metrics)} has the parameter {name!r}")
    texts = in_order(one.text for one in points)
    numbers = [x for text in texts if (x := number(text)) is not None]
    numeric = len(numbers) == len(texts) > 1
    drawn = {by_id[one.bar.runs[0]].label for one in points}
    without = tuple(dict.fromkeys(run.label for run in counted if run.label not in drawn))
    return Scatter(
        name, found.metrics, () if numeric else tuple(texts), numeric and logarithmic(numbers), points, without,
        found.notices, found.labels,
    )  # fmt: skip


def _counted(runs: Sequence[RunInfo]) -> list[RunInfo]:
    """Return the runs without attempts that ended early, where another attempt of the row did not."""
    whole = {run.label for run in runs if run.started_at is not None and not run.ended_early}
    counted = [run for run in runs if not (run.ended_early and run.label in whole)]
    last = {run.label: run.run_id for run in counted}
    # Of a row of failures, the latest alone.
    return [run for run in counted if not run.ended_early or last[run.label] == run.run_id]


def _point(attempts: Sequence[Bar], run: RunInfo, text: str) -> Point:
    values = [one.value for one in attempts]
    return Point(
        attempts[-1], text, statistics.fmean(values), min(values), max(values), len(values), ended_early=run.ended_early
    )
