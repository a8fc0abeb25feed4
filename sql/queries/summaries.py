"""Run summaries, final software metrics, and the catalog of quantities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from hypergauge.core.errors import BenchError
from hypergauge.sql.queries.charts.axes import Interval
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.rows import value

__all__ = [
    "Coverage",
    "DeviceEnergy",
    "FinalMetric",
    "GpuFacts",
    "Live",
    "Summary",
    "coverage",
    "device_energy",
    "final_metrics",
    "gpu_facts",
    "gpus",
    "just_ended",
    "live_values",
    "reachable_live_values",
    "series_count",
    "summaries",
    "summaries_between",
    "unsummarised",
]


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a run's quantity over all devices, in the canonical unit.

    Attributes
    ----------
    seen
        Duration without gaps, in seconds.
    coverage
        Share of the time of the run, or of its part, that was measured; see ``measured_share``.
    few
        Whether its mean is one of too few readings of a gauge; see ``is_of_few``.
    """

    run_id: str
    quantity: str
    unit: str
    scope: str
    n: int
    seconds: float | None
    mean: float | None
    min: float | None
    max: float | None
    p50: float | None
    p95: float | None
    total: float | None
    seen: float | None
    coverage: float = 0.0
    few: bool = False


@dataclass(frozen=True, slots=True)
class FinalMetric:
    """Last value of a software metric by its name, which is none of a measured value (``logged_names``)."""

    run_id: str
    key: str
    step: int
    value: float | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Quantity that has been measured."""

    quantity: str
    unit: str
    scopes: str
    metrics: str
    series: int
    help: str


@dataclass(frozen=True, slots=True)
class Live:
    """Newest usage of a run's own processes: cores, and bytes."""

    run_id: str
    cpu_usage: float | None
    memory_used: float | None


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """Notes on a run's GPU metrics.

    Attributes
    ----------
    gpus
        Number of GPUs or MIG instances of the run.
    simulated
        Whether the GPUs are simulated.
    energy_method
        Method of energy attribution, as labeled by the exporter; several are joined by ``+``.
    energy_divided
        Whether its energy is an equal part of that of several processes.
    host_energy_method
        The methods of attribution of the energy of CPU, memory or the whole system, also joined.
    """

    gpus: int
    simulated: bool
    energy_method: str | None
    energy_divided: bool
    host_energy_method: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceEnergy:
    """Energy of a run's whole GPUs during the run, idle and other runs included, in joules.

    Attributes
    ----------
    seconds
        Measured duration.
    """

    run_id: str
    joules: float
    seconds: float


def device_energy(connection: Connection, run_ids: Sequence[str]) -> list[DeviceEnergy]:
    """Return the energy of runs' whole GPUs, in the scope that has all of their time."""
    with connection.cursor(row_factory=class_row(DeviceEnergy)) as cursor:
        return cursor.execute(
            """
            select distinct on (run_id) run_id, total as joules, seconds from run_summary_of(%s, '{gpu_power}')
            where metric is null and device is null and scope in ('instance', 'device') and seconds > 0
            order by run_id, scope_width(scope, false)
            """,
            (list(run_ids),),
        ).fetchall()


def gpu_facts(connection: Connection, run_ids: Sequence[str]) -> dict[str, GpuFacts]:
    """Return by run the notes on its GPU metrics."""
    rows = connection.execute(
        """
        select r.run_id, (select count(*) from placements where run_id = r.run_id and gpu_uuid is not null),
               on_simulated_gpus(r), x.method, r.run_id in (select energy_divided(%(runs)s)),
               x.host_method
        from runs r left join (
            -- Of several exporters, the one that counts names the method.
            select c.run_id,
                   string_agg(distinct s.labels ->> 'method', '+') filter (where c.quantity = 'gpu_energy_attributed') as method,
                   string_agg(distinct s.labels ->> 'method', '+') filter (where c.quantity <> 'gpu_energy_attributed') as host_method
            from run_sources(%(runs)s, '{gpu_energy_attributed,cpu_energy_attributed,dram_energy_attributed,system_energy_attributed}') c
            join series s using (series_id)
            where c.counts and c.scope = 'process' group by c.run_id) x using (run_id)
        where r.run_id = any(%(runs)s)
        """,
        {"runs": list(run_ids)},
    ).fetchall()
    return {run_id: GpuFacts(*facts) for run_id, *facts in rows}


def gpus(connection: Connection, run_ids: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return by run the UUIDs of its GPUs, including the GPUs of its MIG instances."""
    rows = connection.execute(
        """
        select run_id, array_remove(array_agg(p.gpu_uuid), null) from runs left join placements p using (run_id)
        where run_id = any(%s) group by run_id
        """,
        (list(run_ids),),
    ).fetchall()
    return {run_id: frozenset(uuids) for run_id, uuids in rows}


def summaries(connection: Connection, run_ids: Sequence[str]) -> list[Summary]:
    """Return the summaries of runs over all devices. For each quantity the narrowest scope that covers the run comes first."""
    source = "run_summary_of(%(runs)s, null) s"
    return _summaries(connection, source, "coalesce(ended_at, now()) - started_at", {"runs": list(run_ids)})


def summaries_between(
    connection: Connection, intervals: Sequence[Interval], quantities: Sequence[str] | None = None
) -> list[Summary]:
    """Return summaries of an interval of each run from its raw samples, for all quantities or some."""
    source = """
        unnest(%(runs)s::text[], %(times)s::tstzmultirange[]) as interval (run, times)
        cross join lateral summary_between(run, %(quantities)s::text[], times) s
    """
    values = {
        "runs": [one.run_id for one in intervals],
        "times": [one.times for one in intervals],
        "quantities": None if quantities is None else list(quantities),
    }
    return _summaries(connection, source, "(select sum(upper(x) - lower(x)) from unnest(times) x)", values)


def _summaries(connection: Connection, source: str, lasted: str, values: dict[str, Any]) -> list[Summary]:
    """Return the summaries of a source; `lasted` is the SQL expression of the time that each covers."""
    with connection.cursor(row_factory=class_row(Summary)) as cursor:
        return cursor.execute(
            f"""
            with requested as materialized (
                select run_id, exclusive(run_id) as alone, started_at, ended_at from runs where run_id = any(%(runs)s)
            ), counted as materialized (
                select * from counted_quantities(%(runs)s))
            select s.run_id, s.quantity, coalesce(m.unit, '') as unit, s.scope, n, seconds, mean, min, max, p50, p95,
                   total, coalesce(seen, seconds) as seen,
                   measured_share(coalesce(seen, seconds), n, extract(epoch from {lasted})::float8, counts) as coverage,
                   is_of_few(n, counts) as few
            from {source} join requested using (run_id) left join counted using (run_id, quantity)
            left join (select distinct on (quantity) quantity, unit from metrics order by quantity, origin) m using (quantity)
            where s.run_id = any(%(runs)s) and s.metric is null and s.device is null
            order by s.quantity, scope_width(s.scope, requested.alone)
            """.encode(),  # noqa: S608 - only our own text
            values,
        ).fetchall()


def just_ended(connection: Connection, seconds: float) -> list[str]:
    """Return the runs that ended in the last `seconds` seconds."""
    rows = connection.execute(
        "select run_id from runs where started_at is not null and ended_at > now() - make_interval(secs => %s)",
        (seconds,),
    )
    return [run_id for (run_id,) in rows]


def unsummarised(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return the runs among `run_ids` whose summaries are not final, since the collector has yet to write the last samples."""
    if not run_ids:
        return []
    rows = connection.execute(
        "select run_id from runs where run_id = any(%s) and started_at is not null and not summarised", (list(run_ids),)
    )
    return [run_id for (run_id,) in rows]


def final_metrics(
    connection: Connection, run_ids: Sequence[str], before: Mapping[str, datetime | None] | None = None,
    parts: Mapping[str, RunPart] | None = None,
) -> list[FinalMetric]:  # fmt: skip
    """Return the last value of each software metric of each run (``last_values``), optionally before a time or in a part of the run."""
    with connection.cursor(row_factory=class_row(FinalMetric)) as cursor:
        return cursor.execute(
            """
            with requested as (
                select %s::text[] as runs, %s::timestamptz[] as before, %s::tstzmultirange[] as parts
            )
            select run_id, key, last.step, last.value
            from requested cross join lateral last_values(runs, null, before, parts) last order by run_id, key
            """,
            (
                list(run_ids), [(before or {}).get(run) for run in run_ids],
                [one.times if (one := (parts or {}).get(run)) else None for run in run_ids],
            ),
        ).fetchall()  # fmt: skip


def coverage(connection: Connection, run_ids: Sequence[str] | None) -> list[Coverage]:
    """Return the quantities with series, for some runs or for the whole database."""
    with connection.cursor(row_factory=class_row(Coverage)) as cursor:
        return cursor.execute(
            """
            select s.quantity, coalesce(min(m.unit), '') as unit, string_agg(distinct p.kind, ', ') as scopes,
                   string_agg(distinct s.metric, ', ') as metrics, count(distinct s.series_id) as series,
                   coalesce((array_agg(m.help order by m.origin, m.preference, m.metric_id))[1], '') as help
            from series s join places p using (place_id) left join metrics m using (metric_id)
            where %(runs)s::text[] is null
               or exists (select from run_sets r where r.place_id = s.place_id and r.run_id = any(%(runs)s))
            group by s.quantity order by min(m.metric_id) nulls last, s.quantity
            """,
            {"runs": None if run_ids is None else list(run_ids)},
        ).fetchall()


def live_values(connection: Connection, run_ids: Sequence[str]) -> dict[str, Live]:
    """Return the newest usage of running runs. A run without a sample in the last 10 s is missing."""
    with connection.cursor(row_factory=class_row(Live)) as cursor:
        rows = cursor.execute(
            """
            select p.run_id, max(x.value) filter (where s.quantity = 'cpu_usage') as cpu_usage,
                   max(x.value) filter (where s.quantity = 'memory_used') as memory_used
            from places p join series s using (place_id)
            cross join lateral (select value from bounded_samples where series_id = s.series_id
                                and time > now() - interval '10 s' and last > now() - interval '10 s'
                                order by time desc limit 1) x
            where p.run_id = any(%s) and s.quantity in ('cpu_usage', 'memory_used')
            group by p.run_id
            """,
            (list(run_ids),),
        ).fetchall()
    return {row.run_id: row for row in rows}


def reachable_live_values(database: Database, run_ids: Sequence[str]) -> dict[str, Live]:
    """Return the newest usage of running runs; none if the database does not answer."""
    try:
        with database.session() as connection:
            return live_values(connection, run_ids)
    except BenchError:
        return {}


def series_count(connection: Connection) -> int:
    """Return the number of series."""
    return value(connection, int, "select count(*) from series")
