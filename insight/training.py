"""Health of trainings for a report: losses, norms, and the worst tensor of each collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypergauge.sql.queries.charts.charts import Curve
from hypergauge.sql.queries.charts.tensors import (
    Selection,
    TensorCollection,
    extreme,
    losses,
    tensor_collections,
    tensor_curves,
)
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["MOST_TRAININGS", "HealthLine", "trainings"]

# Runs with lines in a report: of many, a plot tells more.
MOST_TRAININGS = 20
# Points of a small curve.
_POINTS = 60


@dataclass(frozen=True, slots=True)
class HealthLine:
    """One value of a training over its steps.

    Attributes
    ----------
    what
        Its name: ``loss``, ``gradients, smallest l2 norm``.
    unit
        ``ratio`` of a share, else empty.
    last
        NaN of a loss that was not finite at last.
    worst, worst_at, tensor
        Extreme on the bad side, seconds since the run's start, and the tensor that has it; empty for a value of all together.
    values
        Some values in the order of time, for a small curve.
    """

    run_id: str
    what: str
    unit: str
    first: float
    last: float
    worst: float
    worst_at: float
    tensor: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Watched:
    """A value to report: what is worst of it, and over which tensors."""

    what: str
    chosen: Selection
    worst: str = "max"
    unit: str = ""


_WATCHED = (
    _Watched("loss", Selection("losses", "mean", ("loss",))),
    _Watched("loss of validations", Selection("losses", "mean", ("val_loss",))),
    _Watched("gradients: norm of all", Selection("gradients", "norm")),
    _Watched("gradients: smallest norm of a tensor", Selection("gradients", "l2", None, "min"), "min"),
    _Watched("gradients: greatest norm of a tensor", Selection("gradients", "l2", None, "max")),
    _Watched("weights: norm of all", Selection("weights", "norm")),
    _Watched("weights: smallest update ratio", Selection("weights", "update_ratio", None, "min"), "min"),
    _Watched("weights: greatest update ratio", Selection("weights", "update_ratio", None, "max")),
    _Watched("relu: greatest share of zeros", Selection("relu", "zeros", None, "max"), unit="ratio"),
    _Watched("sigmoid: greatest saturated share", Selection("sigmoid", "saturated", None, "max"), unit="ratio"),
    _Watched("tanh: greatest saturated share", Selection("tanh", "saturated", None, "max"), unit="ratio"),
)
_NONFINITE = Selection(None, "nonfinite", None, "max")


def trainings(
    connection: Connection, runs: Sequence[RunInfo], parts: Mapping[str, RunPart] | None
) -> dict[str, list[HealthLine]]:
    """Return the lines of runs, or of a part of each, by run id. Runs without tensors are missing."""
    collections: dict[str, list[TensorCollection]] = {}
    for one in tensor_collections(connection, [run.run_id for run in runs]):
        collections.setdefault(one.run_id, []).append(one)
    found = {}
    for run_id in [run.run_id for run in runs if run.run_id in collections][:MOST_TRAININGS]:
        if parts is None or run_id in parts:
            found[run_id] = list(_lines(connection, run_id, collections[run_id], parts[run_id] if parts else None))
    return {run_id: lines for run_id, lines in found.items() if lines}


def _lines(
    connection: Connection, run_id: str, collections: Sequence[TensorCollection], part: RunPart | None
) -> Iterator[HealthLine]:
    there = {(one.collection, reduction) for one in collections for reduction in one.reductions}
    for watched in _WATCHED:
        if (watched.chosen.collection, watched.chosen.reduction) in there:
            yield from _line(connection, run_id, watched, part)
    if any(reduction == "nonfinite" for _, reduction in there):
        watched = _Watched("all tensors: greatest share of NaN and infinite elements", _NONFINITE, unit="ratio")
        yield from (one for one in _line(connection, run_id, watched, part) if one.worst > 0)


def _line(connection: Connection, run_id: str, watched: _Watched, part: RunPart | None) -> Iterator[HealthLine]:
    last = None
    if watched.chosen.collection == "losses":
        [name] = watched.chosen.names or ()
        points = losses(connection, [run_id]).get((run_id, name), ())
        last = next((value for x, value in reversed(points) if part is None or part.holds(x)), None)
    for curve in tensor_curves(connection, [run_id], watched.what, watched.chosen, _POINTS):
        inside = [at for at, x in enumerate(curve.x) if part is None or part.holds(x)]
        if not inside:
            continue
        at, worst = _worst(curve, inside, watched.worst)
        end = next((x for x in curve.x if x > curve.x[at]), None)
        tensor = ""
        if watched.chosen.over in ("min", "max") and watched.chosen.collection is not None:
            tensor = extreme(connection, run_id, watched.chosen, curve.x[at], end)
        yield HealthLine(
            run_id, watched.what, watched.unit, curve.value[inside[0]], curve.value[inside[-1]] if last is None else last, worst,
            curve.x[at], tensor,
            tuple(curve.value[one] for one in inside),
        )  # fmt: skip


def _worst(curve: Curve, inside: Sequence[int], worst: str) -> tuple[int, float]:
    if worst == "min":
        at = min(inside, key=lambda one: curve.low[one])
        return at, curve.low[at]
    at = max(inside, key=lambda one: curve.high[one])
    return at, curve.high[at]
