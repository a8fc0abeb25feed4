"""Limits on a capsule's content: it neither changes data here nor runs code here.

The author may be untrusted. The import accepts the capsule's runs with their samples as they are. It drops other content
or refuses the capsule.
"""

from __future__ import annotations

from psycopg import sql

from hypergauge.core.errors import BadRequest
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer.capsule import OURS
from hypergauge.sql.transfer.staging import SCHEMA

__all__ = ["keep_apart", "settle"]

# References between tables: table, column, referenced table. All must stay within the capsule.
_REFERENCES = [
    ("workloads", "experiment_id", "experiments"),
    ("runs", "workload_id", "workloads"),
    ("places", "run_id", "runs"),
    ("run_sets", "place_id", "places"),
    ("series", "metric_id", "metrics"),
]


def keep_apart(connection: Connection, capsule: str) -> None:
    """Remove from the staging tables everything that would affect more than the runs of `capsule`.

    Raises
    ------
    BadRequest
        The capsule references rows that it does not hold.
    """
    for name, column, other in _REFERENCES:
        query = sql.SQL(
            "select from {name} where {column} is not null and {column} not in (select {column} from {other}) limit 1"
        ).format(name=sql.Identifier(SCHEMA, name), column=sql.Identifier(column), other=sql.Identifier(SCHEMA, other))
        if connection.execute(query).fetchone() is not None:
            raise BadRequest(f"{name} of it name {other} that are not in it: `bench export` did not write it")
    for name, column in OURS:
        connection.execute(
            sql.SQL("update {} set {} = {}").format(
                sql.Identifier(SCHEMA, name),
                sql.Identifier(column),
                sql.Literal(capsule) if column == "origin" else sql.DEFAULT,
            )
        )
    # Local rules do not evaluate imported runs, and local hosts do not perform their pending actions.
    connection.execute(
        "update bench_staging.runs set evaluated = true; delete from bench_staging.rule_actions where begun_at is null"
    )


def settle(connection: Connection) -> None:
    """End imported runs that were still running, and mark all summaries as tracked, so that MLflow receives none."""
    connection.execute(
        """
        select end_run(run_id, 'failed', last.time, null, 'it still ran when it was exported; it ends at its last sample')
        from bench_staging.runs r cross join lateral (
            select max(x.time) as time
            from run_sets rs join series s using (place_id) cross join lateral (
                select time from samples where series_id = s.series_id and runset_id = rs.runset_id order by time desc limit 1) x
            where rs.run_id = r.run_id) last
        where status in ('pending', 'running');

        update run_sets o set ended_at = greatest(r.ended_at, o.started_at) from runs r
        where r.run_id = o.run_id and o.ended_at is null and r.run_id in (select run_id from bench_staging.runs);

        -- A workload of which some runs had ended: the others are not here to end it.
        update workloads w set status = case when x.bad then 'failed' else 'finished' end, ended_at = x.ended_at
        from (select workload_id, max(ended_at) as ended_at, bool_or(status <> 'finished') as bad
              from workload_runs(array(select workload_id from bench_staging.workloads)) group by 1
              having bool_and(status not in ('pending', 'running'))) x
        where x.workload_id = w.workload_id and w.ended_at is null;

        insert into tracked_summaries (run_id) select run_id from bench_staging.runs
        """
    )
