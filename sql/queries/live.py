"""Live data of running runs and their host: newest spans and values, firing rules, usage of the last minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["NewestValue", "Position", "Recent", "holding_rules", "newest_values", "positions", "recent_values"]

# Older values of a host do not count as its present state.
_NEWEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a run: its innermost phase, and its newest epoch and step."""

    run_id: str
    phase: str | None
    epoch: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Recent:
    """Value of a run's quantity, in the canonical unit; `at` in Unix seconds, `age` in seconds."""

    run_id: str
    quantity: str
    scope: str
    at: float
    age: float
    value: float


@dataclass(frozen=True, slots=True)
class NewestValue:
    """Newest sample of a quantity, in the canonical unit.

    `gpu_uuid` is ``None`` for a host's value; `at` is the scrape time in Unix seconds.
    """

    quantity: str
    gpu_uuid: str | None
    value: float
    at: float


def positions(connection: Connection, run_ids: Sequence[str]) -> dict[str, Position]:
    """Return the positions of runs that track phases, epochs or steps. Only the newest hundred phases count."""
    rows = records(
        connection,
        Position,
        """
            select run_id, phase, epoch, step
            from unnest(%s::text[]) as requested(run_id)
            left join lateral (
                select name as phase from (
                    select name, started_at, ended_at from spans where run_id = requested.run_id and kind = 'phase'
                    order by started_at desc limit 100) newest
                where ended_at is null order by started_at desc limit 1) phases on true
            left join lateral (
                select step as epoch from spans where run_id = requested.run_id and kind = 'epoch'
                order by started_at desc limit 1) epochs on true
            left join lateral (
                select step from spans where run_id = requested.run_id and kind = 'step'
                order by started_at desc limit 1) steps on true
            where num_nonnulls(phase, epoch, step) > 0
            """,
        (list(run_ids),),
    )
    return {row.run_id: row for row in rows}


def holding_rules(connection: Connection, run_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the firing rules of runs, in order of start."""
    rows = connection.execute(
        """
        select run_id, array_agg(rule order by started_at, rule)
        from rule_firings where run_id = any(%s) and ended_at is null group by run_id
        """,
        (list(run_ids),),
    ).fetchall()
    return {run_id: tuple(rules) for run_id, rules in rows}


def recent_values(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str], seconds: float, step: float
) -> list[Recent]:
    """Return means over `step` seconds of the last `seconds`, in order of time; see `run_chart`."""
    return records(connection, Recent, """
            select run_id, quantity, scope, extract(epoch from time)::float8 as at,
                   extract(epoch from now() - time)::float8 as age, value
            from run_chart(%(runs)s, %(quantities)s, now() - make_interval(secs => %(seconds)s), null, %(step)s, false,
                           %(series)s)
            join (select run_id, run_label(w, r) as run from runs r join workloads w using (workload_id)
                  where run_id = any(%(runs)s)) labels using (run)
            order by at
            """,
            {
                "runs": list(run_ids), "quantities": list(quantities), "seconds": seconds, "step": step * 1000,
                "series": len(run_ids) * len(quantities),
            })  # fmt: skip


def newest_values(connection: Connection, host: str, gpu_uuids: Sequence[str], now: float) -> list[NewestValue]:
    """Return temperature and power of GPUs and the load of `host`, as measured in the last minute.

    Of several sources that still measure a quantity, the preferred source counts. `now` is in Unix seconds.
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
        {"now": now, "seconds": _NEWEST_SECONDS, "gpus": list(gpu_uuids), "host": host},
    )
