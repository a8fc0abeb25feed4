"""Results of queries on the runs in files of earlier formats, as in ``tests/data/formats``."""

from __future__ import annotations

import json
from typing import Any

from hypergauge.sql.server.database import Connection

_QUERIES = {
    "runs": """
        select run_id, mlflow_run_id, experiment_id, e.name as experiment, e.source, workload, w.status as workload_status,
               position, attempt, r.name, owner, r.status, r.started_at, r.ended_at, exit_code, reason, command, environment,
               collocation, devices, params, host, keep, note, simulated, profilers, actions
        from runs r join workloads w using (workload_id) join experiments e using (experiment_id) order by run_id
    """,
    "placements": """
        select run_id, host, gpu_uuid, gpu_instance_id, mig_uuid, root_pid, started_at, ended_at from placements
        order by run_id, gpu_uuid
    """,
    "run sets": """
        select s.run_id, kind, host, gpu_uuid, scope, others + (
               select count(*) from run_sets o where o.runset_id = s.runset_id and o.run_id <> s.run_id) as others,
               started_at, ended_at
        from run_sets s join places using (place_id) order by 1, 2, 4, started_at
    """,
    "samples": """
        select run_id, quantity, metric, unit, scope, device, count(*) as n, count(value) as values, sum(value) as sum,
               sum(dt)::float8 as seconds, min(time) as first, max(time) as last
        from run_samples group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
    """,
    "levels": """
        select 'samples_10s' as level, run_id, metric, sum(n)::integer as n, sum(seconds) as seconds, sum(area) as area, max(max) as max
        from samples_10s join run_sets using (runset_id) join series using (series_id) group by 1, 2, 3
        union all
        select 'samples_1m', run_id, metric, sum(n)::integer, sum(seconds), sum(area), max(max)
        from samples_1m join run_sets using (runset_id) join series using (series_id) group by 1, 2, 3
        union all
        select 'samples_10m', run_id, metric, sum(n)::integer, sum(seconds), sum(area), max(max)
        from samples_10m join run_sets using (runset_id) join series using (series_id) group by 1, 2, 3
        order by 1, 2, 3
    """,
    "summaries": """
        select run_id, quantity, scope, metric, device, n, seconds, mean, min, max, p50, p95, total
        from run_summary order by 1, 2, 3, 4, 5
    """,
    "spans": """
        select run_id, span_id, parent_id, name, kind, step, started_at, ended_at, pid, thread from spans
        order by 1, 2
    """,
    "software metrics": "select run_id, key, step, time, elapsed, value from software_metrics order by 1, 2, 3, 4",
    "firings": "select run_id, rule, started_at, ended_at, severity, evidence from rule_firings order by 1, 2, 3",
    "highlights": "select run_id, started_at, ended_at, kind, text, weight from highlights order by 1, 2, 5",
    "accounting": "select run_id, step, state, elapsed_seconds, cpu_seconds, max_rss_bytes from accounting order by 1",
}


def answers(connection: Connection, experiments: tuple[int, ...] = (7, 20)) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all runs of `experiments` by topic, with JSON's types."""
    connection.execute("set timezone = 'UTC'; set extra_float_digits = 0")
    found = {}
    rows = connection.execute(
        "select run_id from runs join workloads using (workload_id) where experiment_id = any(%s)", (list(experiments),)
    ).fetchall()
    ids = {run_id for (run_id,) in rows}
    for topic, query in _QUERIES.items():
        answer = connection.execute(f"select to_json(t)::text from ({query}) t".encode()).fetchall()
        found[topic] = [row for (text,) in answer if (row := json.loads(text))["run_id"] in ids]
    return found
