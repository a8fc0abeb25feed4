"""Axes other than time: steps, epochs, phases, and windows on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

__all__ = [
    "Pace",
    "Span",
    "Stretch",
    "paces",
    "phase_names",
    "places",
    "spans",
    "stretches",
    "training_phases",
    "without_raw_samples",
]


@dataclass(frozen=True, slots=True)
class Span:
    """Where a run is on an axis: from its first to its last place, in seconds, steps or epochs, and for how many seconds."""

    run_id: str
    first: float
    last: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time that a run took for a part of its axis.

    Attributes
    ----------
    first, last
        The part: steps, epochs or seconds.
    followed_at
        When what followed began, to which belongs what is logged from then on; ``None`` where nothing did.
    """

    run_id: str
    first: float
    last: float
    started_at: datetime
    ended_at: datetime
    followed_at: datetime | None

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return (self.ended_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of a run through its steps or epochs.

    Attributes
    ----------
    seconds
        How long one took, on average: the mean of the spans, which leaves out what lies between them. Where only software metrics
        tell steps, the time from one to the next.
    rate
        How many there were in a second, from the beginning of the first to the end of the last.
    """

    run_id: str
    seconds: float
    rate: float


def spans(connection: Connection, run_ids: Sequence[str], align: str) -> dict[str, Span]:
    """Return where those of the runs are on an axis that have it, by id; see `chart_axis`."""
    with connection.cursor(row_factory=class_row(Span)) as cursor:
        rows = cursor.execute(
            """
            select r.run_id, a.first, a.last, extract(epoch from a.ended_at - a.started_at)::float8 as seconds
            from runs r cross join lateral chart_axis(r.run_id, %(align)s) a where r.run_id = any(%(runs)s)
            """,
            {"runs": list(run_ids), "align": align},
        ).fetchall()
    return {row.run_id: row for row in rows}


def places(
    connection: Connection, run_ids: Sequence[str], align: str, points: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Return an axis by each run's label: seconds since its start, ascending, and its place then; straight in between."""
    rows = connection.execute(
        """
        select run_label(w, r), array_agg(extract(epoch from a.time - r.started_at)::float8 order by a.time, a.place),
               array_agg(a.place order by a.time, a.place)
        from runs r join workloads w using (workload_id)
        cross join lateral run_axis(r.run_id, %(align)s, 1e-9, %(points)s) a
        where r.run_id = any(%(runs)s) group by 1
        """,
        {"runs": list(run_ids), "align": align, "points": points},
    ).fetchall()
    return {label: (seconds, found) for label, seconds, found in rows}


def stretches(connection: Connection, parts: Mapping[str, tuple[float, float]], align: str) -> dict[str, Stretch]:
    """Return by run the time that it took for its part, from one place to another, of its axis."""
    with connection.cursor(row_factory=class_row(Stretch)) as cursor:
        rows = cursor.execute(
            """
            select run_id, first, last, started_at, ended_at, followed_at
            from unnest(%(runs)s::text[], %(firsts)s::float8[], %(lasts)s::float8[]) as part (run_id, first, last)
            cross join lateral axis_stretch(run_id, %(align)s, first, last)
            """,
            {
                "runs": list(parts),
                "firsts": [first for first, _ in parts.values()],
                "lasts": [last for _, last in parts.values()],
                "align": align,
            },
        ).fetchall()
    return {row.run_id: row for row in rows}


def paces(connection: Connection, run_ids: Sequence[str], align: str, within: Mapping[str, Stretch]) -> dict[str, Pace]:
    """Return how quickly runs went through what an axis counts (``step`` or ``epoch``), by id; of some, `within` a stretch.

    A step belongs to the stretch that its middle is in. Runs without any are missing.
    """
    with connection.cursor(row_factory=class_row(Pace)) as cursor:
        rows = cursor.execute(
            """
            select run_id, coalesce(spanned, took / places) as seconds, places / took as rate
            from unnest(%(runs)s::text[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) as asked (run_id, starts, ends)
            cross join lateral (
                select avg(extract(epoch from ended_at - started_at)::float8) filter (where next_place > place) as spanned,
                       max(next_place) - min(place) as places,
                       extract(epoch from max(ended_at) - min(started_at))::float8 as took
                from axis_points(run_id, %(align)s)
                where starts is null or started_at + (ended_at - started_at) / 2 between starts and ends) x
            where places > 0 and took > 0
            """,
            {
                "runs": list(run_ids),
                "starts": [one.started_at if (one := within.get(run)) else None for run in run_ids],
                "ends": [one.ended_at if (one := within.get(run)) else None for run in run_ids],
                "align": align,
            },
        ).fetchall()
    return {row.run_id: row for row in rows}


def training_phases(connection: Connection, run_ids: Sequence[str]) -> dict[str, str]:
    """Return by run the phase that is its training; a run without phases is left out."""
    rows = connection.execute(
        "select run_id, name from unnest(%s::text[]) as run_id cross join lateral training_phase(run_id) as name"
        " where name is not null",
        (list(run_ids),),
    ).fetchall()
    return dict(rows)


def phase_names(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return the names of the phases that any of these runs has, in the order in which they first began."""
    rows = connection.execute(
        "select name from spans where run_id = any(%s) and kind = 'phase' group by name order by min(started_at)",
        (list(run_ids),),
    ).fetchall()
    return [name for (name,) in rows]


def without_raw_samples(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Return those of these runs whose raw samples are no longer kept, or not all of them."""
    rows = connection.execute(
        "select run_id from runs where run_id = any(%s) and not keep and started_at < (select edge from retention)",
        (list(run_ids),),
    ).fetchall()
    return {run_id for (run_id,) in rows}
