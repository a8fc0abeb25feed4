"""Run summaries that MLflow does not have yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

__all__ = ["UntrackedRun", "mark_tracked", "untracked", "untracked_runs"]

# What MLflow has not got of a run by then, it never gets.
_DAYS = 7


@dataclass(frozen=True, slots=True)
class UntrackedRun:
    """A run with a summary. `version` changes with whatever is written of the run."""

    run_id: str
    mlflow_run_id: str
    simulated: bool
    version: str


def untracked(connection: Connection, without: Collection[str], limit: int = 50) -> list[str]:
    """Return the ids of runs whose summary is written and not in MLflow, the oldest first, and none of those `without`."""
    rows = connection.execute(
        """
        select run_id from runs
        where summarised and mlflow_run_id is not null and ended_at > now() - make_interval(days => %s)
          and run_id <> all(%s) and not exists (select from tracked_summaries t where t.run_id = runs.run_id)
        order by ended_at limit %s
        """,
        (_DAYS, list(without), limit),
    ).fetchall()
    return [run_id for (run_id,) in rows]


def untracked_runs(connection: Connection, run_ids: Sequence[str]) -> list[UntrackedRun]:
    """Return what is to be known of these runs to deliver their summaries."""
    with connection.cursor(row_factory=class_row(UntrackedRun)) as cursor:
        return cursor.execute(
            """
            select run_id, mlflow_run_id, on_simulated_gpus(r) as simulated, r.xmin::text as version from runs r
            where run_id = any(%s) and summarised and mlflow_run_id is not null
            """,
            (list(run_ids),),
        ).fetchall()


def mark_tracked(connection: Connection, run: UntrackedRun) -> None:
    """Record that MLflow has the summary of a run, unless something of the run was written since it was read."""
    connection.execute(
        """
        insert into tracked_summaries (run_id) select run_id from runs where run_id = %s and xmin::text = %s
        on conflict do nothing
        """,
        (run.run_id, run.version),
    )
