"""Data of charts: curves of runs and workloads, with their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.server.database import Connection

__all__ = [
    "Bounds",
    "Curve",
    "Measured",
    "measured",
    "run_curves",
    "software_curves",
    "software_keys",
    "workload_curves",
]


@dataclass(frozen=True, slots=True)
class Curve:
    """Metric of a run or workload over a chart's axis: `x` in seconds, steps or epochs, the rest in the metric's unit.

    Attributes
    ----------
    label
        Label of the run or workload: ``20/1/3``, ``20/1/3@2``, ``20/1``.
    low, high
        Minimum and maximum of each point.
    """

    label: str
    metric: str
    scope: str
    x: Sequence[float]
    value: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of curves: positions on the axis to read, ``None`` for all, and the part of each run by id."""

    start: float | None = None
    stop: float | None = None
    parts: Mapping[str, RunPart] | None = None

    def as_values(self) -> dict[str, Any]:
        """Return the arguments ``start``, ``stop`` and ``parts`` of ``run_chart``."""
        times = None if self.parts is None else Jsonb({run_id: one.times for run_id, one in self.parts.items()})
        return {"start": self.start, "stop": self.stop, "parts": times}


WHOLE = Bounds()


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurement of a run's quantity.

    Attributes
    ----------
    interval
        Seconds between two samples.
    mean, min, max, p95
        Statistics over all devices.
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
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str], scopes: Sequence[str] | None,
    parts: Mapping[str, RunPart] | None = None,
) -> list[Measured]:  # fmt: skip
    """Return the measurements of each run's quantities, in the scopes that `run_chart` selects.

    With `parts`, they are those of a part of each run, from its raw samples.
    """
    source = "run_summary_of(%(runs)s, %(quantities)s)"
    if parts is not None:
        source = """(select x.* from unnest(%(runs)s::text[], %(times)s::tstzmultirange[]) as part (run, times)
                     cross join lateral summary_between(run, %(quantities)s, times) x)"""
    with connection.cursor(row_factory=class_row(Measured)) as cursor:
        return cursor.execute(
            f"""
            with requested as materialized (
                select run_id, exclusive(run_id) as alone from runs where run_id = any(%(runs)s)
            ), statistics as materialized (
                select s.*, dense_rank() over (partition by s.run_id, s.quantity order by
                           case when %(scopes)s::text[] is null then scope_width(s.scope, a.alone) else 0 end) as width
                from {source} s join requested a using (run_id)
                where s.metric is null and s.seconds > 0 and (%(scopes)s::text[] is null or s.scope = any(%(scopes)s))
            )
            select f.run_id, f.quantity, coalesce(m.unit, '') as unit, f.scope, coalesce(f.seen, f.seconds) / f.n as interval, f.mean, f.min,
                   f.max, f.p95
            from statistics f left join (select distinct on (quantity) quantity, unit from metrics order by quantity, origin) m using (quantity)
            where f.width = 1
            order by f.run_id, f.quantity, f.scope
            """.encode(),  # noqa: S608 - only our own text
            {
                "runs": list(run_ids if parts is None else parts), "quantities": list(quantities),
                "scopes": None if scopes is None else list(scopes),
                "times": [one.times for one in (parts or {}).values()],
            },
        ).fetchall()  # fmt: skip


def run_curves(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str], step: float, scopes: Sequence[str] | None,
    align: str, within: Bounds = WHOLE,
) -> list[Curve]:  # fmt: skip
    """Return the curves of quantities on an axis, with a point every `step` seconds, steps or epochs, or fewer."""
    with connection.cursor(row_factory=class_row(Curve)) as cursor:
        return cursor.execute(
            """
            select run as label, quantity as metric, scope, array_agg(extract(epoch from time)::float8 order by time) as x,
                   array_agg(value order by time) as value, array_agg(low order by time) as low,
                   array_agg(high order by time) as high
            from run_chart(%(runs)s, %(quantities)s, to_timestamp(%(start)s),
                           to_timestamp(%(stop)s), %(step)s, true, %(series)s,
                           %(scopes)s, align => %(align)s, parts => %(parts)s)
            group by run, quantity, scope
            """,
            {
                "runs": list(run_ids), "quantities": list(quantities), "step": step * 1000,
                "series": len(run_ids) * len(quantities) * len(scopes or [""]),
                "scopes": None if scopes is None else list(scopes), "align": align, **within.as_values(),
            },
        ).fetchall()  # fmt: skip


def workload_curves(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str], step: float, scopes: Sequence[str] | None,
    align: str, within: Bounds = WHOLE,
) -> list[Curve]:  # fmt: skip
    """Return the curves of the runs' workloads: mean and range over the runs of each workload."""
    with connection.cursor(row_factory=class_row(Curve)) as cursor:
        return cursor.execute(
            """
            with requested as (select array_agg(distinct workload_id) as ids from runs where run_id = any(%(runs)s))
            select split_part(workload, ' ', 1) as label, quantity as metric, scope,
                   array_agg(extract(epoch from time)::float8 order by time) as x,
                   array_agg(value order by time) as value, array_agg(low order by time) as low,
                   array_agg(high order by time) as high
            from requested cross join lateral
                 workload_chart(ids, %(quantities)s, to_timestamp(%(start)s),
                                to_timestamp(%(stop)s), %(step)s, true, %(series)s,
                                %(scopes)s, %(align)s, %(parts)s)
            group by workload, quantity, scope
            """,
            {
                "runs": list(run_ids), "quantities": list(quantities), "step": step * 1000,
                "series": len(run_ids) * len(quantities) * len(scopes or [""]),
                "scopes": None if scopes is None else list(scopes), "align": align, **within.as_values(),
            },
        ).fetchall()  # fmt: skip


def software_keys(connection: Connection, run_ids: Sequence[str]) -> dict[str, set[str]]:
    """Return the names of the runs' software metrics, each with its runs."""
    rows = connection.execute(
        """
        select key, array_agg(run_id) from last_values(%(runs)s) group by key order by key
        """,
        {"runs": list(run_ids)},
    ).fetchall()
    return {key: set(found) for key, found in rows}


def software_curves(connection: Connection, run_ids: Sequence[str], keys: Sequence[str], points: int) -> list[Curve]:
    """Return the curves of software metrics over seconds since each run's start, each with at most `points` points.

    Values that were NaN or infinite are NaN.
    """
    with connection.cursor(row_factory=class_row(Curve)) as cursor:
        return cursor.execute(
            """
            select run as label, key as metric, '' as scope, array_agg(x order by x) as x,
                   array_agg(coalesce(value, 'NaN') order by x) as value, array_agg(coalesce(low, 'NaN') order by x) as low,
                   array_agg(coalesce(high, 'NaN') order by x) as high
            from software_chart(%(runs)s, %(keys)s, 'time', %(points)s) group by run, key
            """,
            {"runs": list(run_ids), "keys": list(keys), "points": points},
        ).fetchall()
