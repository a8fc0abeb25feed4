"""What a picture is drawn from: curves of runs or workloads on a common axis, and what has to be said beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.errors import BadRequest, NoData, did_you_mean
from insight import remarks
from insight.alignment import ALIGNMENTS, axes_of, check_align
from insight.columns import SCOPES
from insight.curves import Drawing, hardware, software
from sql.charts import Curve, measured, software_keys
from sql.database import Connection
from sql.selection import RunInfo, select_runs
from sql.summaries import coverage, gpu_facts

__all__ = ["ALIGNMENTS", "Chart", "Series", "chart"]

Floats = npt.NDArray[np.float64]

# More of its runs' names make no name of a workload.
_MOST_NAMES = 3


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
        Some of `insight.columns.SCOPES`; by default the narrowest of each run and quantity.
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
    _check(by, align, scopes)
    metrics = tuple(dict.fromkeys(metrics))
    started = _started(connection, runs, by)
    logged = _logged(connection, _ids(started), metrics)
    axes = axes_of(connection, _ids(started), align)
    facts = measured(connection, list(axes), [name for name in metrics if name not in logged], scopes)
    having = {name: logged.get(name) or {one.run_id for one in facts if one.quantity == name} for name in metrics}
    groups: dict[str, list[RunInfo]] = {}
    for run in started:
        if run.run_id in axes and any(run.run_id in some for some in having.values()):
            groups.setdefault(_label(run, by), []).append(run)
    if not groups:
        raise NoData(f"the selected runs have no samples of {' or '.join(metrics)}")
    labels = list(groups)
    shown = {run.run_id: run for label in labels[:max_series] for run in groups[label]}
    place = list(shown)
    facts = [one for one in facts if one.run_id in shown]
    facts.sort(key=lambda one: (metrics.index(one.quantity), place.index(one.run_id), SCOPES.index(one.scope)))
    made_up = {run for run, gpu in gpu_facts(connection, place).items() if gpu.simulated}
    how = Drawing(by, align, scopes, points)
    curves = hardware(connection, facts, {run_id: axes[run_id] for run_id in shown}, how)
    curves += software(connection, place, list(logged), how)
    curves.sort(key=lambda curve: (metrics.index(curve.metric), labels.index(curve.label), curve.scope))
    units = {one.quantity: one.unit for one in facts}
    drawn = list(shown.values())
    notes = (
        *remarks.without_axis(started, align, axes.keys()),
        *remarks.missing(drawn, having),
        *remarks.differences(drawn, facts),
        *remarks.gaps(drawn, facts),
        *remarks.simulated(drawn, metrics, made_up),
        *remarks.profiled(drawn),
        *remarks.left_out(by, labels[max_series:]),
    )
    series = (_series(curve, groups[curve.label], units.get(curve.metric, ""), made_up) for curve in curves)
    return Chart(by, align, metrics, tuple(series), tuple(labels[max_series:]), notes)


def _started(connection: Connection, runs: Sequence[RunInfo], by: str) -> list[RunInfo]:
    """Return the runs that have started, or those of their workloads."""
    if by == "workload":
        runs = select_runs(connection, list(dict.fromkeys(_label(run, by) for run in runs)))
    started = [run for run in runs if run.started_at is not None]
    if not started:
        raise NoData("none of the selected runs has started yet")
    return started


def _check(by: str, align: str, scopes: Sequence[str] | None) -> None:
    if by not in ("run", "workload"):
        raise BadRequest(f"a series is a 'run' or a 'workload', not a {by!r}")
    check_align(align)
    for scope in scopes or ():
        if scope not in SCOPES:
            raise BadRequest(f"there is no scope {scope!r}{did_you_mean(scope, SCOPES)}")


def _ids(runs: Iterable[RunInfo]) -> list[str]:
    return [run.run_id for run in runs]


def _label(run: RunInfo, by: str) -> str:
    """Return how the database names a run or its workload in charts."""
    if by == "workload":
        return f"{run.experiment_id}/{run.workload}"
    return run.label if run.attempt == 1 else f"{run.label}@{run.attempt}"


def _logged(connection: Connection, run_ids: Sequence[str], metrics: Sequence[str]) -> dict[str, set[str]]:
    """Return, for those of the metrics that are software metrics, the runs that have them.

    Raises
    ------
    BadRequest
        One of the others is no quantity of these runs.
    """
    quantities = [one.quantity for one in coverage(connection, run_ids)]
    keys = software_keys(connection, run_ids)
    for name in metrics:
        if name not in quantities and name not in keys:
            raise BadRequest(f"these runs have no metric {name!r}{did_you_mean(name, [*quantities, *keys])}")
    return {name: keys[name] for name in metrics if name not in quantities}


def _series(curve: Curve, group: Sequence[RunInfo], unit: str, made_up: AbstractSet[str]) -> Series:
    names = list(dict.fromkeys(run.name for run in group if run.name))
    if len(names) > _MOST_NAMES:
        names[_MOST_NAMES:] = ["…"]
    ids = tuple(_ids(group))
    x, value, low, high = (np.array(one, np.float64) for one in (curve.x, curve.value, curve.low, curve.high))
    return Series(
        f"{curve.label} {', '.join(names)}".rstrip(), ids, curve.metric, unit, curve.scope, x, value, low, high,
        simulated=curve.metric.startswith("gpu_") and not made_up.isdisjoint(ids),
        profiled=any(run.profilers for run in group),
    )  # fmt: skip
