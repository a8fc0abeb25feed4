"""Data of a chart: curves of runs or workloads on a common axis, with notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hypergauge.core.errors import NoData
from hypergauge.insight.charts.curves import Drawing, hardware, software
from hypergauge.insight.charts.subject import Subject, subject
from hypergauge.sql.queries.charts import Curve
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Chart", "Series", "chart"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve.

    Attributes
    ----------
    label
        Of its run or workload, with a name: ``20/1/3 wide``.
    runs
        The ids of the runs that it is made of.
    metric, unit, scope
        What it shows and whose figure that is; a software metric has neither unit nor scope.
    x
        Ascending, shape ``(n,)``: seconds, steps or epochs, as the chart is aligned.
    value, low, high
        Shape ``(n,)``, in the canonical unit: the mean of each point, and its least and greatest sample; of a workload the
        mean over its runs at that time, and the least and the greatest of them.
    simulated
        Whether its figures are of simulated GPUs: made up.
    profiled
        Whether one of its runs was under a profiler.
    """

    label: str
    runs: tuple[str, ...]
    metric: str
    unit: str
    scope: str
    x: Floats
    value: Floats
    low: Floats
    high: Floats
    simulated: bool
    profiled: bool

    def points(self) -> dict[str, list[float | None]]:
        """Return its points as JSON has them, in which there is no NaN."""
        return {
            name: [None if math.isnan(number) else number for number in getattr(self, name).tolist()]
            for name in ("x", "value", "low", "high")
        }


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves on a common axis.

    Attributes
    ----------
    by, align
        What is a series, ``run`` or ``workload``, and what the axis counts: see `chart`.
    metrics
        What was asked for, in that order.
    series
        By metric, then in the order of the runs.
    left_out
        The labels of the runs or workloads that there was no place for.
    notes
        Sentences that belong beside the picture: where figures differ in what they are, are missing or made up.
    """

    by: str
    align: str
    metrics: tuple[str, ...]
    series: tuple[Series, ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]

    def as_dict(self, *, points: bool = False) -> dict[str, Any]:
        """Return it as it is written to JSON: how many points each curve has, or all of them, null where there is no figure."""
        series = [
            {
                "label": one.label, "runs": one.runs, "metric": one.metric, "unit": one.unit, "scope": one.scope,
                "points": len(one.x), "simulated": one.simulated, "profiled": one.profiled,
                **(one.points() if points else {}),
            }
            for one in self.series
        ]  # fmt: skip
        return {"by": self.by, "align": self.align, "series": series, "left_out": self.left_out, "notes": self.notes}


def chart(
    connection: Connection,
    runs: Sequence[RunInfo],
    metrics: Sequence[str],
    *,
    by: str = "run",
    align: str = "time",
    scopes: Sequence[str] | None = None,
    max_series: int = 40,
    points: int = 600,
) -> Chart:
    """Return the curves of runs, or of the workloads that they belong to.

    Parameters
    ----------
    metrics
        Quantities of the catalog (``gpu_power``), or keys of software metrics (``loss``).
    by
        ``run``, or ``workload``: then of every row of it the latest attempt counts.
    align
        What the runs have in common: the ``time`` since their start, the ``step``, the ``epoch``, or the time since they
        began to train, ``phase``, or since another phase began, ``phase:NAME``.
    scopes
        Some of `hypergauge.insight.comparison.columns.SCOPES`; by default the narrowest of each run and quantity.
    max_series
        How many runs or workloads there are at most: the first of those that have any of the metrics.
    points
        How many points a curve has, roughly, at most.

    Raises
    ------
    BadRequest
        The runs have no such metric, or an option is none of its choices.
    NoData
        None of the runs has started, has the axis, or has samples.
    """
    about = subject(connection, runs, metrics, by=by, align=align, scopes=scopes, max_series=max_series)
    how = Drawing(by, align, scopes, points)
    curves = hardware(connection, about.facts, about.axes, how) + software(connection, about.run_ids, about.logged, how)
    if not curves:
        raise NoData(f"the selected runs have no samples of {' or '.join(about.metrics)} there")
    curves.sort(key=lambda curve: about.place(curve.metric, curve.label, curve.scope))
    return Chart(by, align, about.metrics, tuple(_series(about, c) for c in curves), about.left_out, about.notes)


def _series(about: Subject, curve: Curve) -> Series:
    x, value, low, high = (np.array(one, np.float64) for one in (curve.x, curve.value, curve.low, curve.high))
    return Series(
        about.title(curve.label), tuple(run.run_id for run in about.groups[curve.label]), curve.metric,
        about.unit(curve.metric), curve.scope, x, value, low, high,
        simulated=about.simulated(curve.metric, curve.label), profiled=about.profiled(curve.label),
    )  # fmt: skip
