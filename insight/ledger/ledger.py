"""Ledger of GPUs: lanes of GPUs and MIG instances, and the runs on them over real time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from hypergauge.core.errors import BadRequest, NoData, did_you_mean
from hypergauge.insight.ledger.facts import facts
from hypergauge.insight.ledger.model import Block, Lane, Ledger
from hypergauge.sql.queries.charts.ledger import (
    Cost,
    IdleCurve,
    Mark,
    PlacedRun,
    ShareCurve,
    costs,
    idle_power,
    marks,
    measured,
    placed_runs,
    sentence,
    shares,
)
from hypergauge.sql.queries.notices import notices
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["MEASURES", "ledger"]

# Quantities of each measure, the best first: a share of the multiprocessors, and watts.
MEASURES: Mapping[str, tuple[str, ...]] = {
    "sm": ("gpu_sm_utilization", "gpu_sm_active", "gpu_utilization"),
    "power": ("gpu_energy_attributed", "gpu_power"),
}
# Points over the whole time: more than a page shows.
_POINTS = 600


def ledger(connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str] = ()) -> Ledger:
    """Return the ledger of the GPUs that runs used.

    Parameters
    ----------
    metrics
        At most one quantity of `MEASURES`; by default the share of the multiprocessors if measured, else watts.

    Raises
    ------
    BadRequest
        The metric is no height of a block.
    NoData
        None of the runs has used a GPU.
    """
    measure = _measure(connection, runs, metrics)
    placed = placed_runs(connection, [run.run_id for run in runs])
    if not placed:
        started = any(run.started_at is not None for run in runs)
        raise NoData("none of the runs used a GPU" if started else "none of the selected runs has started yet")
    now = datetime.now(UTC)
    start, stop = min(one.started_at for one in placed), max(one.ended_at or now for one in placed)
    step = max(1.0, (stop - start).total_seconds() / _POINTS)
    ids = list(dict.fromkeys(one.run_id for one in placed))
    curves = {(one.run_id, one.place_id): one for one in shares(connection, ids, measure, start, stop, step)}
    idle = _idle(connection, placed, curves, start, stop, step) if measure == "power" else {}
    known, found = costs(connection, ids), marks(connection, ids)
    lanes: dict[int, list[Block]] = {}
    for one in placed:
        curve = curves.get((one.run_id, one.place_id))
        mine = tuple(mark for mark in found if mark.run_id == one.run_id)
        lanes.setdefault(one.place_id, []).append(_made(one, curve, known.get(one.run_id), mine, now))
    made = tuple(_lane(blocks, idle.get(place_id)) for place_id, blocks in lanes.items())
    return Ledger(
        measure=measure,
        start=start.timestamp(),
        end=stop.timestamp(),
        lanes=made,
        sentence=sentence(connection, ids, start, stop),
        notices=notices(connection, facts(connection, runs, made)),
    )


def _measure(connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str]) -> str:
    if not metrics:
        there = measured(connection, [run.run_id for run in runs], MEASURES["sm"])
        return "sm" if there else "power"
    if len(metrics) > 1:
        raise BadRequest("a ledger has one height: give one --metric, or none")
    [metric] = metrics
    for measure, quantities in MEASURES.items():
        if metric in quantities:
            return measure
    every = [one for quantities in MEASURES.values() for one in quantities]
    raise BadRequest(
        f"the height of a ledger is one of {', '.join(every)}, not {metric!r}{did_you_mean(metric, every)}"
    )


def _idle(
    connection: Connection, placed: Iterable[PlacedRun], curves: Mapping[tuple[str, int], ShareCurve], start: datetime,
    stop: datetime, step: float,
) -> dict[int, IdleCurve]:  # fmt: skip
    """Return the idle power of lanes by resource. A lane with power of whole GPUs has none: that includes idle power."""
    whole = {place_id for (_, place_id), curve in curves.items() if curve.quantity == "gpu_power"}
    places = {one.place_id for one in placed} - whole
    return {one.place_id: one for one in idle_power(connection, sorted(places), start, stop, step)}


def _made(
    placed: PlacedRun, curve: ShareCurve | None, cost: Cost | None, found: tuple[Mark, ...], now: datetime
) -> Block:
    return Block(
        placed=placed,
        start=placed.started_at.timestamp(),
        end=(placed.ended_at or now).timestamp(),
        quantity=curve.quantity if curve else "",
        own=all(curve.own) if curve else True,
        x=np.array(curve.x if curve else (), np.float64),
        value=np.array(curve.value if curve else (), np.float64),
        cost=cost,
        marks=found,
    )


def _lane(blocks: Sequence[Block], idle: IdleCurve | None) -> Lane:
    first = blocks[0].placed
    return Lane(
        first.place_id, first.host, first.lane, any(block.placed.simulated for block in blocks), tuple(blocks),
        np.array(idle.x if idle else (), np.float64), np.array(idle.value if idle else (), np.float64),
    )  # fmt: skip
