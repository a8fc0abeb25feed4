"""Data of the GPU ledger: runs on their GPUs over real time, and each run's own part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, records, value

__all__ = [
    "Cost",
    "IdleCurve",
    "Mark",
    "PlacedRun",
    "ShareCurve",
    "costs",
    "idle_power",
    "marks",
    "measured",
    "placed_runs",
    "sentence",
    "shares",
]


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """Run on a GPU or MIG instance.

    Attributes
    ----------
    run, title
        Label, and label with name and marks.
    color
        Index of the run's color, as on the dashboards.
    early
        Whether the run failed, was stopped or reached a time limit.
    place_id, lane
        GPU or instance, and its display name.
    shared
        Whether another run was on it at some time.
    ended_at
        ``None`` for a running run.
    """

    run_id: str
    run: str
    title: str
    color: int
    status: str
    reason: str | None
    early: bool
    place_id: int
    host: str
    lane: str
    simulated: bool
    shared: bool
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class ShareCurve:
    """Part of a GPU or instance that a run took, at times in Unix seconds.

    Attributes
    ----------
    quantity
        Source of the values.
    own
        Whether each value is the run's own; otherwise an even part of that of a shared device.
    """

    run_id: str
    place_id: int
    quantity: str
    x: Sequence[float]
    value: Sequence[float]
    own: Sequence[bool]


@dataclass(frozen=True, slots=True)
class IdleCurve:
    """Idle power of a whole GPU in watts, at times in Unix seconds."""

    place_id: int
    x: Sequence[float]
    value: Sequence[float]


@dataclass(frozen=True, slots=True)
class Mark:
    """Start of a phase or firing of a rule in a run, in Unix seconds; `kind` is ``phase`` or ``rule``."""

    run_id: str
    kind: str
    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of the runs beside a run, on the mean of all repetitions.

    Attributes
    ----------
    ratio
        Time beside them relative to the time alone.
    lost
        Lost share of the run's time, from 0 to 1: a run that takes twice as long has lost half of its time. 0 where other
        programs may have cost much of it.
    alone
        Labels of the runs alone.
    cpu_ratio
        CPU time beside them relative to the CPU time alone.
    disturbed
        Whether other programs may have cost much of the time.
    doubt
        That others were not measured, as a clause; ``None`` where they were.
    """

    run_id: str
    ratio: float
    lost: float
    alone: Sequence[str]
    cpu_ratio: float | None = None
    disturbed: bool = False
    doubt: str | None = None


def placed_runs(connection: Connection, run_ids: Sequence[str]) -> list[PlacedRun]:
    """Return the runs on each GPU and MIG instance, by host, device and start. Runs without GPUs are missing."""
    return records(
        connection,
        PlacedRun,
        """
        select run_id, run, title, color::integer as color, status, reason, early, place_id, host, lane, simulated, shared,
               started_at, ended_at
        from ledger_blocks(%s)
        """,
        (list(run_ids),),
    )


def shares(
    connection: Connection, run_ids: Sequence[str], measure: str, start: datetime, stop: datetime, step: float
) -> list[ShareCurve]:
    """Return the runs' parts of their devices: the measure ``sm`` as a share of 1, or ``power`` in watts.

    Parameters
    ----------
    step
        Seconds between two points; more where the sources are slower.
    """
    return records(
        connection,
        ShareCurve,
        """
        select run_id, place_id, min(quantity) as quantity, array_agg(extract(epoch from time)::float8 order by time) as x,
               array_agg(value order by time) as value, array_agg(own order by time) as own
        from ledger_shares(%s, %s, %s, %s, %s) group by run_id, place_id
        """,
        (list(run_ids), measure, start, stop, 1000 * step),
    )


def idle_power(
    connection: Connection, place_ids: Sequence[int], start: datetime, stop: datetime, step: float
) -> list[IdleCurve]:
    """Return the idle power of whole GPUs; see `shares`."""
    return records(
        connection,
        IdleCurve,
        """
        select place_id, array_agg(extract(epoch from time)::float8 order by time) as x, array_agg(value order by time) as value
        from ledger_idle(%s, %s, %s, %s) group by place_id
        """,
        (list(place_ids), start, stop, 1000 * step),
    )


def marks(connection: Connection, run_ids: Sequence[str]) -> list[Mark]:
    """Return the starts of the runs' phases and the firings of rules, in order of time."""
    return records(
        connection,
        Mark,
        """
        select run_id, 'phase' as kind, name, extract(epoch from started_at)::float8 as at
        from spans where run_id = any(%(runs)s) and kind = 'phase'
        union all
        select run_id, 'rule', rule, extract(epoch from started_at)::float8 from rule_firings where run_id = any(%(runs)s)
        order by at
        """,
        {"runs": list(run_ids)},
    )


def measured(connection: Connection, run_ids: Sequence[str], quantities: Sequence[str]) -> set[str]:
    """Return those of the quantities that exist for the runs, from dimension tables alone."""
    return set(
        column(
            connection,
            "select quantity from run_quantities(%s) where quantity = any(%s)",
            (list(run_ids), list(quantities)),
        )
    )


def costs(connection: Connection, run_ids: Sequence[str]) -> dict[str, Cost]:
    """Return what the runs beside them cost runs, by run id. Runs that never ran alone in their experiments are missing."""
    rows = records(connection, Cost, "select * from run_costs(%s)", (list(run_ids),))
    return {one.run_id: one for one in rows}


def sentence(connection: Connection, run_ids: Sequence[str], start: datetime, stop: datetime) -> str:
    """Return what sharing GPUs saved and cost runs; where none shared, how busy their GPUs were between two times."""
    return value(
        connection,
        str,
        "select coalesce(sharing_sentence(%(runs)s), (select * from ledger_sentence(%(runs)s, %(start)s, %(stop)s)), '')",
        {"runs": list(run_ids), "start": start, "stop": stop},
    )
