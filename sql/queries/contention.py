"""Use of the hosts and GPUs of runs by other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypergauge.sql.queries.notices import Fact
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["Contention", "Decision", "contention", "contention_facts", "decisions", "unmeasured_facts"]


@dataclass(frozen=True, slots=True)
class Contention:
    """Use of a run's hosts and GPUs by other programs; see the view ``run_contention``. ``None`` where not measured.

    Attributes
    ----------
    used, cores
        Cores that processes outside all runs and runs of other workloads used, and cores of the hosts.
    services
        Cores that services of hypergauge used.
    gpu_share
        Share of time in which processes outside its workload used its GPUs.
    delay
        Largest share of the run's time that other programs may have cost, from 0 to 1.
    disturbed
        Whether that is too much to decide anything; see ``delay_limit`` in SQL.
    unmeasured
        Where others were not measured, though they may have cost much: ``host``, ``gpu``; see ``unmeasured_others`` in SQL.
    cpu_seconds
        CPU time of the run.
    """

    run_id: str
    used: float | None
    services: float | None
    cores: float | None
    gpu_share: float | None
    delay: float | None
    disturbed: bool
    unmeasured: list[str]
    cpu_seconds: float | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Verdict on a set, as ``sharing_verdict`` in SQL decides.

    Attributes
    ----------
    cause
        Cause of the verdict ``disturbed``, as a clause.
    doubt
        What another verdict takes for granted, as a clause: that nothing unmeasured disturbed it.
    """

    verdict: str | None
    cause: str | None
    doubt: str | None


_FIGURES = ("value", "low", "high", "alone", "beside", "used", "services", "cores", "gpu_share")


def contention(connection: Connection, run_ids: Sequence[str]) -> dict[str, Contention]:
    """Return the use of their hosts and GPUs by other programs, by run id."""
    rows = records(
        connection,
        Contention,
        """
        with requested as materialized (select unnest(%s::text[]) as run_id),
             cpu as materialized (select run_id, total from run_summary_of(array(select run_id from requested), '{cpu_usage}')
                                  where scope = 'process' and metric is null)
        select run_id, other_cores + other_run_cores as used, service_cores as services, cores, gpu_other_share as gpu_share, delay,
               coalesce(delay > delay_limit(), false) as disturbed,
               unmeasured_others(devices, cores, other_cores, cpu_pressure, gpu_other_processes, gpu_other_share, delay) as unmeasured,
               cpu.total as cpu_seconds
        from requested join (select run_id, devices from runs) r using (run_id)
        left join lateral (select * from run_contention c where c.run_id = requested.run_id offset 0) c (id) on true
        left join cpu using (run_id)
        """,
        (list(run_ids),),
    )
    return {one.run_id: one for one in rows}


def decisions(connection: Connection, sets: Sequence[Mapping[str, Any]]) -> list[Decision]:
    """Return the verdict on each set.

    Parameters
    ----------
    sets
        The ``value``, ``low`` and ``high`` of the ratio of its makespan, if it is known; the shares of time that other programs
        may have cost its runs ``alone`` and ``beside`` each other; ``used`` of the ``cores``, and by ``services``; ``gpu_share``;
        where others were ``unmeasured``.
    """
    return records(
        connection,
        Decision,
        """
        select verdict, case when verdict = 'disturbed' then disturbance_text(used, services, cores, gpu_share, unmeasured) end as cause,
               case when verdict <> 'disturbed' then unmeasured_text(unmeasured) end as doubt
        from unnest(%(value)s::float8[], %(low)s::float8[], %(high)s::float8[], %(alone)s::float8[], %(beside)s::float8[],
                    %(used)s::float8[], %(services)s::float8[], %(cores)s::float8[], %(gpu_share)s::float8[], %(where)s::text[])
             with ordinality as x (value, low, high, alone, beside, used, services, cores, gpu_share, places, nth)
        cross join lateral distinct_words(places) unmeasured
        cross join lateral sharing_verdict(value, low, high, alone, beside) verdict
        order by nth
        """,
        {
            "where": [",".join(figures.get("unmeasured", ())) for figures in sets],
            **{name: [figures.get(name) for figures in sets] for name in _FIGURES},
        },
    )


def contention_facts(connection: Connection, run_ids: Sequence[str]) -> tuple[Fact, ...]:
    """Return the facts of programs that may have cost runs much of their time."""
    rows = connection.execute('select code, runs, "values" from contention_notice(%s)', (list(run_ids),))
    return tuple(Fact(*row) for row in rows)


def unmeasured_facts(connection: Connection, run_ids: Sequence[str]) -> tuple[Fact, ...]:
    """Return the facts that programs beside runs were not measured, though they may have cost much."""
    rows = connection.execute('select code, runs, "values" from unmeasured_notice(%s)', (list(run_ids),))
    return tuple(Fact(*row) for row in rows)
