"""Data of charts: curves of runs and workloads, with their sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

__all__ = [
    "Curve",
    "Measured",
    "measured",
    "notices",
    "run_curves",
    "software_curves",
    "software_keys",
    "workload_curves",
]


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric of a run or workload over the axis of a chart: `x` in seconds, steps or epochs, the rest in its unit.

    Attributes
    ----------
    label
        Of its run or workload: ``20/1/3``, ``20/1/3@2``, ``20/1``.
    low, high
        The least and the greatest of each point.
    """

    label: str
    metric: str
    scope: str
    x: Sequence[float]
    value: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurement of a run's quantity.

    Attributes
    ----------
    interval
        The seconds between two samples.
    mean, min, max, p95
        What it came to, over all devices.
    """

    run_id: str
    quantity: str
    unit: str
    scope: str
    interval: float
    mean: float
    min: float
    max: float
    p95: float


def measured(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str], scopes: Sequence[str] | None
) -> list[Measured]:
    """Return how each of the quantities of each run was measured, in the scopes that `run_chart` would take."""
    with connection.cursor(row_factory=class_row(Measured)) as cursor:
        return cursor.execute(
            """
            with asked as materialized (
                select run_id, mostly_alone(run_id) as alone from runs where run_id = any(%(runs)s)
            ), figures as materialized (
                select s.*, dense_rank() over (partition by s.run_id, s.quantity order by
                           case when %(scopes)s::text[] is null then scope_width(s.scope, a.alone) else 0 end) as width
                from run_summary_of(%(runs)s, %(quantities)s) s join asked a using (run_id)
                where s.metric is null and s.seconds > 0 and (%(scopes)s::text[] is null or s.scope = any(%(scopes)s))
            )
            select f.run_id, f.quantity, coalesce(m.unit, '') as unit, f.scope, coalesce(f.seen, f.seconds) / f.n as interval, f.mean, f.min,
                   f.max, f.p95
            from figures f left join (select distinct on (quantity) quantity, unit from metrics order by quantity, origin) m using (quantity)
            where f.width = 1
            order by f.run_id, f.quantity, f.scope
            """,
            {"runs": list(run_ids), "quantities": list(quantities), "scopes": None if scopes is None else list(scopes)},
        ).fetchall()


def notices(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str], scopes: Sequence[str] | None
) -> list[tuple[str, str]]:
    """Return what has to be known before the runs are compared: what each thing is about, and a sentence.

    That a replica is behind is not among it: who opened the connection says so, once for all.
    """
    return connection.execute(
        "select about, notice from chart_notice(%s, %s, null, p_scopes => %s) where about <> 'behind'",
        (list(run_ids), list(quantities), None if scopes is None else list(scopes)),
    ).fetchall()


def run_curves(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str], step: float, scopes: Sequence[str] | None,
    align: str,
) -> list[Curve]:  # fmt: skip
    """Return the curves of quantities on an axis, a point every `step` seconds, steps or epochs, or less often."""
    with connection.cursor(row_factory=class_row(Curve)) as cursor:
        return cursor.execute(
            """
            select run as label, quantity as metric, scope, array_agg(extract(epoch from time)::float8 order by time) as x,
                   array_agg(value order by time) as value, array_agg(low order by time) as low,
                   array_agg(high order by time) as high
            from run_chart(%(runs)s, %(quantities)s, null, null, %(step)s, true, %(series)s, %(scopes)s,
                           align => %(align)s)
            group by run, quantity, scope
            """,
            {
                "runs": list(run_ids), "quantities": list(quantities), "step": step * 1000,
                "series": len(run_ids) * len(quantities) * len(scopes or [""]),
                "scopes": None if scopes is None else list(scopes), "align": align,
            },
        ).fetchall()  # fmt: skip


def workload_curves(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str], step: float, scopes: Sequence[str] | None,
    align: str,
) -> list[Curve]:  # fmt: skip
    """Return the curves of quantities of the workloads that the runs belong to: the mean over their runs, and the range."""
    with connection.cursor(row_factory=class_row(Curve)) as cursor:
        return cursor.execute(
            """
            with asked as (select array_agg(distinct workload_id) as ids from runs where run_id = any(%(runs)s))
            select split_part(workload, ' ', 1) as label, quantity as metric, scope,
                   array_agg(extract(epoch from time)::float8 order by time) as x,
                   array_agg(value order by time) as value, array_agg(low order by time) as low,
                   array_agg(high order by time) as high
            from asked cross join lateral
                 workload_chart(ids, %(quantities)s, null, null, %(step)s, true, %(series)s, %(scopes)s, %(align)s)
            group by workload, quantity, scope
            """,
            {
                "runs": list(run_ids), "quantities": list(quantities), "step": step * 1000,
                "series": len(run_ids) * len(quantities) * len(scopes or [""]),
                "scopes": None if scopes is None else list(scopes), "align": align,
            },
        ).fetchall()  # fmt: skip


def software_keys(connection: Connection, run_ids: Sequence[str]) -> dict[str, set[str]]:
    """Return the names of the runs' software metrics, each with the runs that have it."""
    rows = connection.execute(
        """
        select key, array_agg(one) from software_keys(%(runs)s) cross join unnest(%(runs)s::text[]) as one
        where exists (select from software_metrics s where s.run_id = one and s.key = software_keys.key)
        group by key order by key
        """,
        {"runs": list(run_ids)},
    ).fetchall()
    return {key: set(found) for key, found in rows}


def software_curves(connection: Connection, run_ids: Sequence[str], keys: Sequence[str], points: int) -> list[Curve]:
    """Return the curves of software metrics over the seconds since each run's start, each in no more than so many points."""
    with connection.cursor(row_factory=class_row(Curve)) as cursor:
        return cursor.execute(
            """
            select run as label, key as metric, '' as scope, array_agg(x order by x) as x,
                   array_agg(value order by x) as value, array_agg(low order by x) as low,
                   array_agg(high order by x) as high
            from software_chart(%(runs)s, %(keys)s, 'time', %(points)s) group by run, key
            """,
            {"runs": list(run_ids), "keys": list(keys), "points": points},
        ).fetchall()
