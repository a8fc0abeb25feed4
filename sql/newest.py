"""The newest figures by which one sees whether a host has calmed down: temperature and power of its GPUs, and its load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from sql.database import Connection

__all__ = ["Newest", "newest_figures"]

_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Newest:
    """A quantity's newest sample, in the canonical unit.

    `gpu_uuid` is ``None`` for the host's; `at` is the time of its scrape in Unix seconds.
    """

    quantity: str
    gpu_uuid: str | None
    value: float
    at: float


def newest_figures(connection: Connection, host: str, gpu_uuids: Sequence[str], now: float) -> list[Newest]:
    """Return temperature and power of GPUs and the load of `host`, as far as they were measured in the last minute.

    Of several sources of one quantity the preferred one counts. `now` is in Unix seconds.
    """
    with connection.cursor(row_factory=class_row(Newest)) as cursor:
        return cursor.execute(
            """
            select distinct on (s.quantity, p.gpu_uuid) s.quantity, p.gpu_uuid,
                   x.value * coalesce(m.scale, 1) as value, extract(epoch from x.time)::float8 as at
            from places p join series s using (place_id) left join metrics m using (metric_id)
            cross join lateral (
                select time, value from samples
                where series_id = s.series_id and time > to_timestamp(%(now)s) - make_interval(secs => %(seconds)s)
                order by time desc limit 1) x
            where x.value is not null
              and (p.gpu_uuid = any(%(gpus)s) and s.quantity in ('gpu_temperature', 'gpu_power')
                   or p.kind = 'host' and p.host = %(host)s and s.quantity = 'load')
            order by s.quantity, p.gpu_uuid, coalesce(m.preference, 1), x.time desc
            """,
            {"now": now, "seconds": _SECONDS, "gpus": list(gpu_uuids), "host": host},
        ).fetchall()
