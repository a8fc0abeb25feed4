"""Use of the hosts and GPUs of runs by other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypergauge.sql.queries.notices import Fact
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["Contention", "contention", "contention_facts"]


@dataclass(frozen=True, slots=True)
class Contention:
    """Use of a run's hosts and GPUs by other programs; see the view ``run_contention``. ``None`` where not measured.

    Attributes
    ----------
    used, cores
        Cores that processes outside all runs and runs of other workloads used, and cores of the hosts.
    delay
        Largest share of the run's time that other programs may have cost, from 0 to 1.
    cpu_seconds
        CPU time of the run.
    """

    run_id: str
    used: float | None
    cores: float | None
    delay: float | None
    cpu_seconds: float | None


def contention(connection: Connection, run_ids: Sequence[str]) -> dict[str, Contention]:
    """Return the use of their hosts and GPUs by other programs, by run id."""
    rows = records(
        connection,
        Contention,
        """
        with requested as materialized (select unnest(%s::text[]) as run_id),
             cpu as materialized (select run_id, total from run_summary_of(array(select run_id from requested), '{cpu_usage}')
                                  where scope = 'process' and metric is null)
        select run_id, other_cores + other_run_cores as used, cores, delay, cpu.total as cpu_seconds
        from requested cross join lateral (select * from run_contention c where c.run_id = requested.run_id offset 0) c (id)
        left join cpu using (run_id)
        """,
        (list(run_ids),),
    )
    return {one.run_id: one for one in rows}


def contention_facts(connection: Connection, run_ids: Sequence[str]) -> tuple[Fact, ...]:
    """Return the facts of programs that may have cost runs much of their time."""
    rows = connection.execute('select code, runs, "values" from contention_notice(%s)', (list(run_ids),))
    return tuple(Fact(*row) for row in rows)
