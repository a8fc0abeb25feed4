"""Inputs of a cost calculation: power over time, hardware hours, time to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["Hours", "Reached", "hours", "power_by_minute", "reached"]

# Comparisons of a metric with a target.
COMPARISONS = (">=", "<=", ">", "<")


@dataclass(frozen=True, slots=True)
class Hours:
    """Hours of a run on a GPU or a host. Concurrent runs on the same hardware divide the time equally.

    Attributes
    ----------
    kind
        ``gpu`` or ``host``.
    name
        Model of the GPU, ``None`` if unknown, or the host.
    """

    run_id: str
    kind: str
    name: str | None
    hours: float


@dataclass(frozen=True, slots=True)
class Reached:
    """First time that a run's software metric met a target, ``None`` for never, and its best value."""

    run_id: str
    time: datetime | None
    best: float | None


def hours(connection: Connection, spans: Mapping[str, tuple[datetime, datetime]]) -> list[Hours]:
    """Return the GPU and host hours of runs, each between two times."""
    return records(
        connection,
        Hours,
        """
            with requested as materialized (
                select * from unnest(%s::text[], %s::timestamptz[], %s::timestamptz[]) as requested (run_id, starts, ends)
            ), had as (
                select a.run_id, rs.place_id, extract(epoch from least(coalesce(rs.ended_at, now()), a.ends)
                                                                 - greatest(rs.started_at, a.starts))
                       / (select count(*) + max(o.others) from run_sets o where o.runset_id = rs.runset_id) as seconds
                from requested a join run_sets rs using (run_id)
            )
            select h.run_id, p.kind, case p.kind when 'gpu' then d.model else p.host end as name,
                   (sum(h.seconds) / 3600)::float8 as hours
            from had h join places p using (place_id) left join devices d using (place_id)
            where p.kind in ('gpu', 'host') and h.seconds > 0
            group by h.run_id, h.place_id, p.kind, d.model, p.host
            """,
        (list(spans), [start for start, _ in spans.values()], [stop for _, stop in spans.values()]),
    )


def power_by_minute(
    connection: Connection, run_ids: Sequence[str], quantity: str, scope: str
) -> dict[str, list[tuple[datetime, float]]]:
    """Return by run the mean power in watts of each measured minute, with the start of the minute or of the run.

    For a run of months, each value covers several minutes.
    """
    rows = connection.execute(
        """
        select r.run_id, array_agg(c.time order by c.time), array_agg(c.value order by c.time)
        from run_chart(%(runs)s, array[%(quantity)s], null, null, 60000, false, %(most)s, array[%(scope)s]) c
        join (select r.run_id, run_label(w, r) as run from runs r join workloads w using (workload_id)
              where r.run_id = any(%(runs)s)) r using (run)
        where c.value is not null group by r.run_id
        """,
        {"runs": list(run_ids), "quantity": quantity, "scope": scope, "most": len(run_ids)},
    ).fetchall()
    return {run_id: list(zip(times, watts, strict=True)) for run_id, times, watts in rows}


def reached(
    connection: Connection, run_ids: Sequence[str], key: str, comparison: str, value: float
) -> dict[str, Reached]:
    """Return by run the first time that a software metric met a target. Runs without the metric are missing.

    The losses of a run that watches its training stand in for a metric of that name: each is the mean since the one before.
    """
    if comparison not in COMPARISONS:
        raise ValueError(comparison)
    best = "max" if comparison.startswith(">") else "min"
    rows = records(
        connection,
        Reached,
        f"""
            with logged as (
                select run_id, time, value from software_metrics
                where run_id = any(%(runs)s) and key in (select n.key from named_keys(array[%(key)s], %(runs)s) n)
            ), watched as (
                select run_id, time, mean as value from tensor_stats
                where run_id = any(%(runs)s) and run_id not in (select run_id from logged)
                  and collection = 'losses' and name = %(key)s
            )
            select run_id, min(time) filter (where value {comparison} %(value)s) as time, {best}(value) as best
            from (select * from logged union all select * from watched) x group by run_id
            """,  # noqa: S608 - only our own text
        {"runs": list(run_ids), "key": key, "value": value},
    )
    return {row.run_id: row for row in rows}
