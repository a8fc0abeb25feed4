"""Utilization of the cores of a run's host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypergauge.sql.queries.charts.charts import Bounds
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records, value

__all__ = ["CoreCurve", "core_curves"]


@dataclass(frozen=True, slots=True)
class CoreCurve:
    """Busy share of a core, over seconds since the run's start."""

    device: str
    x: Sequence[float]
    value: Sequence[float]


def core_curves(
    connection: Connection, run_id: str, start: float, step: float, part: RunPart | None
) -> list[CoreCurve]:
    """Return the curves of the cores of a run's host in the order of their numbers, with a point every `step` seconds or more."""
    count = value(
        connection,
        int,
        """
        select count(distinct s.device) from run_sets rs join series s using (place_id)
        where rs.run_id = %s and rs.scope = 'host' and s.quantity = 'cpu_usage'
        """,
        (run_id,),
    )
    if not count:
        return []
    bounds = Bounds(start, None, None if part is None else {run_id: part})
    return records(
        connection,
        CoreCurve,
        """
        select device, array_agg(extract(epoch from time)::float8 order by time) as x, array_agg(value order by time) as value
        from (select time, value, regexp_replace(series, '^.* ', '') as device
              from run_chart(array[%(run)s], '{cpu_usage}', to_timestamp(%(start)s), null,
                             %(step)s, true, %(count)s, '{host}', true, parts => %(parts)s)) points
        where device ~ '^[0-9]+$' group by device order by device::integer
        """,
        {"run": run_id, "step": 1000 * step, "count": count, **bounds.as_values()},
    )
