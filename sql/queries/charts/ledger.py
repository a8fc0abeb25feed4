"""Data of the GPU ledger: runs on their GPUs over real time, and each run's own part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, records

__all__ = ["IdleCurve", "Mark", "PlacedRun", "ShareCurve", "idle_power", "marks", "measured", "placed_runs", "shares"]


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
