"""Newest temperature, power and load of a host, for the cooldown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

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
            select distinct on (n.quantity, p.gpu_uuid) n.quantity, p.gpu_uuid, n.value,
                   extract(epoch from n.time)::float8 as at
            from newest(array(select place_id from places
                              where origin = '' and (gpu_uuid = any(%(gpus)s) or kind = 'host' and host = %(host)s)),
                        array['gpu_temperature', 'gpu_power', 'load'],
                        to_timestamp(%(now)s) - make_interval(secs => %(seconds)s)) n
            join places p using (place_id)
            where (p.kind = 'host') = (n.quantity = 'load')
            order by n.quantity, p.gpu_uuid, n.time desc
            """,
            {"now": now, "seconds": _SECONDS, "gpus": list(gpu_uuids), "host": host},
        ).fetchall()
