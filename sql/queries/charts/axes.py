"""Axes other than time: steps, epochs, phases, and windows on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, records

__all__ = [
    "Interval",
    "Pace",
    "Span",
    "intervals",
    "paces",
    "phase_names",
    "positions",
    "spans",
    "tracked_counts",
    "training_phases",
    "without_raw_samples",
]


@dataclass(frozen=True, slots=True)
class Span:
    """Range of a run on an axis: first and last position in seconds, steps or epochs, and its duration in seconds."""

    run_id: str
    first: float
    last: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Interval:
    """Time interval of a run for a range of its axis.

    Attributes
    ----------
    first, last
        Range in steps, epochs or seconds.
    followed_at
        Start of the next step, epoch or phase, which owns later log entries; ``None`` if none follows.
    part
        The pieces of an interval that has gaps.
    """

    run_id: str
    first: float
    last: float
    started_at: datetime
    ended_at: datetime
    followed_at: datetime | None
    part: RunPart | None = None

    @property
    def times(self) -> str:
        """Times as the text of a ``tstzmultirange``."""
        return self.part.times if self.part else f"{{[{self.started_at.isoformat()},{self.ended_at.isoformat()})}}"

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        if self.part:
            return self.part.seconds
        return (self.ended_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of a run through its steps or epochs.

    Attributes
    ----------
    seconds
        Mean duration of a step or epoch: the mean of the spans, without the gaps between them. If only software metrics
        record steps, the mean time from one step to the next.
    rate
        Steps or epochs per second, from the start of the first to the end of the last.
    """

    run_id: str
    seconds: float
    rate: float


def spans(connection: Connection, run_ids: Sequence[str], align: str) -> dict[str, Span]:
    """Return the ranges of runs on an axis, by id. Runs without the axis are missing; see `chart_axis`."""
    rows = records(
        connection,
        Span,
        """
            select r.run_id, a.first, a.last, extract(epoch from a.ended_at - a.started_at)::float8 as seconds
            from runs r cross join lateral chart_axis(r.run_id, %(align)s) a where r.run_id = any(%(runs)s)
            """,
        {"runs": list(run_ids), "align": align},
    )
    return {row.run_id: row for row in rows}


def positions(
    connection: Connection, run_ids: Sequence[str], align: str, points: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Return an axis by run label: ascending seconds since the run's start, and positions, to be interpolated linearly."""
    rows = connection.execute(
        """
        select run_label(w, r), array_agg(extract(epoch from a.time - r.started_at)::float8 order by a.time, a.position),
               array_agg(a.position order by a.time, a.position)
        from runs r join workloads w using (workload_id)
        cross join lateral run_axis(r.run_id, %(align)s, 1e-9, %(points)s) a
        where r.run_id = any(%(runs)s) group by 1
        """,
        {"runs": list(run_ids), "align": align, "points": points},
    ).fetchall()
    return {label: (seconds, found) for label, seconds, found in rows}


def intervals(connection: Connection, parts: Mapping[str, tuple[float, float]], align: str) -> dict[str, Interval]:
    """Return by run the time interval of its range on the axis, from first to last position."""
    rows = records(
        connection,
        Interval,
        """
            select run_id, first, last, started_at, ended_at, followed_at
            from unnest(%(runs)s::text[], %(firsts)s::float8[], %(lasts)s::float8[]) as part (run_id, first, last)
            cross join lateral axis_interval(run_id, %(align)s, first, last)
            """,
        {
            "runs": list(parts),
            "firsts": [first for first, _ in parts.values()],
            "lasts": [last for _, last in parts.values()],
            "align": align,
        },
    )
    return {row.run_id: row for row in rows}


def paces(
    connection: Connection, run_ids: Sequence[str], align: str, within: Mapping[str, Interval]
) -> dict[str, Pace]:
    """Return the pace of runs on an axis (``step`` or ``epoch``), by id. `within` limits some runs to an interval.

    A step belongs to the interval that contains its midpoint. Runs without steps are missing.
    """
    rows = records(
        connection,
        Pace,
        """
            select run_id, coalesce(spanned, took / positions) as seconds, positions / took as rate
            from unnest(%(runs)s::text[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) as requested (run_id, starts, ends)
            cross join lateral (
                select avg(extract(epoch from ended_at - started_at)::float8) filter (where next_position > position) as spanned,
                       max(next_position) - min(position) as positions,
                       extract(epoch from max(ended_at) - min(started_at))::float8 as took
                from axis_points(run_id, %(align)s)
                where starts is null or started_at + (ended_at - started_at) / 2 between starts and ends) x
            where positions > 0 and took > 0
            """,
        {
            "runs": list(run_ids),
            "starts": [one.started_at if (one := within.get(run)) else None for run in run_ids],
            "ends": [one.ended_at if (one := within.get(run)) else None for run in run_ids],
            "align": align,
        },
    )
    return {row.run_id: row for row in rows}


def tracked_counts(
    connection: Connection, run_ids: Sequence[str], kind: str, within: Mapping[str, Interval]
) -> dict[str, float]:
    """Return the completed spans of a kind (``epoch``, ``step``) by run; `within` limits some runs to an interval.

    The numbers count, so that a script may track every tenth step. Runs without such spans are missing.
    """
    rows = connection.execute(
        """
        select run_id, max(next_position) - min(position) as tracked
        from unnest(%(runs)s::text[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) as requested (run_id, starts, ends)
        cross join lateral span_points(run_id, %(kind)s)
        where next_position > position and (starts is null or started_at + (ended_at - started_at) / 2 between starts and ends)
        group by run_id
        """,
        {
            "runs": list(run_ids),
            "starts": [one.started_at if (one := within.get(run)) else None for run in run_ids],
            "ends": [one.ended_at if (one := within.get(run)) else None for run in run_ids],
            "kind": kind,
        },
    ).fetchall()
    return dict(rows)


def training_phases(connection: Connection, run_ids: Sequence[str]) -> dict[str, str]:
    """Return the training phase of each run. Runs without phases are missing."""
    rows = connection.execute(
        "select run_id, name from unnest(%s::text[]) as run_id cross join lateral training_phase(run_id) as name"
        " where name is not null",
        (list(run_ids),),
    ).fetchall()
    return dict(rows)


def phase_names(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return the phase names of these runs, in order of first start."""
    return column(
        connection,
        "select name from spans where run_id = any(%s) and kind = 'phase' group by name order by min(started_at)",
        (list(run_ids),),
    )


def without_raw_samples(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Return the runs among `run_ids` that have lost some or all raw samples to retention."""
    return set(
        column(
            connection,
            "select run_id from runs where run_id = any(%s) and not keep and started_at < (select raw_cutoff from retention)",
            (list(run_ids),),
        )
    )
