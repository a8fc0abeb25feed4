"""Newest temperature, power and load of a host, for the cooldown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["NewestValue", "newest_values"]

_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class NewestValue:
    """Newest sample of a quantity, in the canonical unit.

    `gpu_uuid` is ``None`` for a host's value; `at` is the scrape time in Unix seconds.
    """

    quantity: str
    gpu_uuid: str | None
    value: float
    at: float


def newest_values(connection: Connection, host: str, gpu_uuids: Sequence[str], now: float) -> list[NewestValue]:
    """Return temperature and power of GPUs and the load of `host`, as measured in the last minute.

    With several sources of a quantity, the preferred source counts. `now` is in Unix seconds.
    """
    return records(
        connection,
        NewestValue,
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
    )
