"""Parameters and results of runs on parallel axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hypergauge.core.errors import NoData
from hypergauge.insight.charts.bars import Bar, bars
from hypergauge.insight.charts.parameters import in_order, logarithmic, number
from hypergauge.insight.comparison.columns import SCOPES
from hypergauge.insight.comparison.ranking import extremes
from hypergauge.insight.comparison.software import better
from hypergauge.insight.part import Part
from hypergauge.sql.queries.charts.chart_styles import ChartStyle, run_styles
from hypergauge.sql.queries.notices import Notice
from hypergauge.sql.queries.report import works
from hypergauge.sql.runs.selection import RunInfo, with_sharing
from hypergauge.sql.server.database import Connection

__all__ = ["Dimension", "Parallel", "Track", "parallel"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """Parameter that differs between the runs.

    Attributes
    ----------
    categories
        Its values in natural order; empty where all are numbers.
    logarithmic
        Whether the numbers span more than two decades.
    """

    name: str
    categories: tuple[str, ...] = ()
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Track:
    """Line of a run.

    Attributes
    ----------
    params
        Value of each parameter by name; one that the run does not have is missing.
    results
        Mean of each quantity over the run's time, or the last value of each software metric, by metric. One that was not
        measured is missing.
    ended_early
        Whether the run has failed, was stopped or reached a time limit, so that its results are those of a part.
    """

    label: str
    run_id: str
    status: str
    style: ChartStyle
    params: Mapping[str, str]
    results: Mapping[str, float]
    ended_early: bool
    simulated: bool
    profiled: bool


@dataclass(frozen=True, slots=True)
class Parallel:
    """Runs as lines over their varied parameters and their results.

    Attributes
    ----------
    units
        Canonical unit of each result, by metric; empty for a software metric.
    best, worst
        Indices of the tracks with the best and the worst first result, of the runs that have not ended early. Without a
        `direction`, they have the lowest and the highest one. Of equal ones it is the first by its label.
    direction
        1 if more of the first result is better, -1 if less is, ``None`` if unknown, or if the runs are of several programs.
    """

    dimensions: tuple[Dimension, ...]
    metrics: tuple[str, ...]
    units: Mapping[str, str]
    tracks: tuple[Track, ...]
    best: int | None
    worst: int | None
    direction: int | None
    left_out: tuple[str, ...]
    notices: tuple[Notice, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""

        def label(at: int | None) -> str | None:
            return None if at is None else self.tracks[at].label

        return {
            "dimensions": [asdict(one) for one in self.dimensions],
            "units": self.units,
            "tracks": [asdict(one) for one in self.tracks],
            "best": label(self.best), "worst": label(self.worst), "direction": self.direction,
            "left_out": self.left_out, "notices": [asdict(one) for one in self.notices],
        }  # fmt: skip


def parallel(
    connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str], *, scopes: Sequence[str] | None = None,
    part: Part | None = None,
) -> Parallel:  # fmt: skip
    """Return the started runs over their varied parameters, and the mean or last value of each metric.

    Raises
    ------
    BadRequest
        The runs have no such metric.
    NoData
        No run has a value of a metric, or no parameter differs between the runs.
    """
    started = [run for run in runs if run.started_at is not None]
    found = bars(connection, started, metrics, scopes=scopes, max_series=len(started), part=part)
    dimensions = tuple(_dimensions(started))
    if not dimensions:
        raise NoData("no parameter differs between these runs: --kind bars draws their values")
    values: dict[str, dict[str, Bar]] = {}
    for bar in sorted(found.bars, key=lambda one: SCOPES.index(one.scope) if one.scope else 0):
        values.setdefault(bar.runs[0], {}).setdefault(bar.metric, bar)
    styles = run_styles(connection, [run.run_id for run in started])
    names = [one.name for one in dimensions]
    tracks = tuple(_track(run, names, values.get(run.run_id, {}), styles[run.full_label]) for run in started)
    # Only a software metric has a direction, and these are comparable within one program.
    one_program = len({one.program for one in works(connection, [run.run_id for run in started]).values()}) == 1
    direction = better(found.metrics[0]) if one_program else None
    best, worst = extremes(
        [None if one.ended_early else one.results.get(found.metrics[0]) for one in tracks],
        direction or -1,
        [(run.experiment_id, run.workload, run.position, run.attempt) for run in started],
    )
    return Parallel(
        dimensions, found.metrics, {one.metric: one.unit for one in found.bars}, tracks,
        best[0] if best else None, worst[0] if worst else None, direction,
        tuple(run.full_label for run in runs if run.started_at is None), found.notices,
    )  # fmt: skip


def _dimensions(runs: Sequence[RunInfo]) -> list[Dimension]:
    """Return the parameters with more than one value, or with one that some of the runs do not have."""
    made = []
    for name in dict.fromkeys(key for run in runs for key in run.params):
        texts = in_order(str(run.params[name]) for run in runs if name in run.params)
        if len(texts) == 1 and all(name in run.params for run in runs):
            continue
        numbers = [x for text in texts if (x := number(text)) is not None]
        numeric = len(numbers) == len(texts) > 1
        made.append(Dimension(name, () if numeric else tuple(texts), numeric and logarithmic(numbers)))
    return made


def _track(run: RunInfo, names: Sequence[str], results: Mapping[str, Bar], style: ChartStyle) -> Track:
    return Track(
        with_sharing(f"{run.full_label} {run.name}".rstrip(), [run]), run.run_id, run.status, style,
        {name: str(run.params[name]) for name in names if name in run.params},
        {metric: one.value for metric, one in results.items()}, run.ended_early,
        any(one.simulated for one in results.values()), bool(run.profilers),
    )  # fmt: skip
