"""Run summaries that MLflow has not received yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, records

__all__ = ["UntrackedRun", "mark_tracked", "untracked", "untracked_runs"]

# After this time an undelivered summary is given up.
_DAYS = 7


@dataclass(frozen=True, slots=True)
class UntrackedRun:
    """Run with an undelivered summary. `version` changes with each update of the run's row."""

    run_id: str
    mlflow_run_id: str
    simulated: bool
    version: str


def untracked(connection: Connection, without: Collection[str], limit: int = 50) -> list[str]:
    """Return the runs whose final summary MLflow lacks, oldest first, except those in `without`."""
    return column(
        connection,
        """
        select run_id from runs
        where summarised and mlflow_run_id is not null and ended_at > now() - make_interval(days => %s)
          and run_id <> all(%s) and not exists (select from tracked_summaries t where t.run_id = runs.run_id)
        order by ended_at limit %s
        """,
        (_DAYS, list(without), limit),
    )


def untracked_runs(connection: Connection, run_ids: Sequence[str]) -> list[UntrackedRun]:
    """Return the data needed to deliver the summaries of these runs."""
    return records(
        connection,
        UntrackedRun,
        """
            select run_id, mlflow_run_id, on_simulated_gpus(r) as simulated, r.xmin::text as version from runs r
            where run_id = any(%s) and summarised and mlflow_run_id is not null
            """,
        (list(run_ids),),
    )


def mark_tracked(connection: Connection, run: UntrackedRun) -> None:
    """Record the delivery of a run's summary, unless the run's row has changed since it was read."""
    connection.execute(
        """
        insert into tracked_summaries (run_id) select run_id from runs where run_id = %s and xmin::text = %s
        on conflict do nothing
        """,
        (run.run_id, run.version),
    )
