"""Answers of the database about runs, for a comparison of two databases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hypergauge.insight.comparison import neighbours
from hypergauge.insight.comparison.comparison import compare
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.server.database import Connection
from tests.support.world import LEVELS

__all__ = ["answers", "rounded", "rows", "sums"]


def answers(connection: Connection, *selectors: str) -> dict[str, Any]:
    """Return what reading commands, views and charts show of runs."""
    runs = select_runs(connection, selectors, every_attempt=True)
    ids = [run.run_id for run in runs]
    found: dict[str, Any] = {
        "list": json.dumps([asdict(run) for run in runs], default=str),
        "quality": rows(connection, "select * from run_quality where run_id = any(%s) order by run_id", ids),
        "summary": rows(
            connection,
            "select * from run_summary where run_id = any(%s) order by run_id, quantity, scope, metric, device",
            ids,
        ),
        "samples": rows(
            connection,
            "select md5(string_agg(md5(t::text), '' order by t::text)), count(*) from run_samples t where run_id = any(%s)",
            ids,
        ),
        "software": rows(connection, "select * from software_metrics where run_id = any(%s) order by 1, 2, 3, 4", ids),
        "spans": rows(connection, "select * from spans where run_id = any(%s) order by 1, 2", ids),
        "tensors": rows(
            connection, "select * from tensor_stats where run_id = any(%s) order by run_id, step, name", ids
        ),
        "placements": rows(
            connection,
            "select run_id, host, gpu_uuid, gpu_instance_id, mig_uuid, root_pid, started_at, ended_at from placements"
            " where run_id = any(%s) order by 1, 2, 3",
            ids,
        ),
        "firings": rows(connection, "select * from rule_firings where run_id = any(%s) order by 1, 2, 3", ids),
        "highlights": rows(connection, "select * from highlights where run_id = any(%s) order by 1, 2, 3", ids),
    }
    found["table"] = rows(
        connection,
        "select run_id, mlflow_run_id, experiment_id, workload, position, attempt, run, title, name, status, reason, started_at,"
        " ended_at, seconds, host, devices, collocation, environment, owner, params, coverage, simulated, profiled, shared"
        " from run_list where run_id = any(%s) order by run_id",
        ids,
    )
    quantities = ["gpu_power", "load", "threads", "cpu_usage"]
    found["values"] = rows(connection, "select * from run_values(%s, %s)", ids, quantities)
    found["quantities"] = rows(connection, "select quantity, unit from run_quantities(%s) order by 1", ids)
    found["notices"] = rows(connection, "select * from chart_notice(%s, %s) order by 1, 2, 3, 4", ids, quantities)
    found["logged"] = rounded(rows(connection, "select * from software_chart(%s, array['loss'])", ids))
    found["card"] = rows(connection, "select r, c.* from unnest(%s::text[]) r, run_card(r) c order by 1, 2", ids)
    found["duplicates"] = rows(
        connection,
        "select run_id, metric, labels from stored_duplicates join series using (series_id) where run_id = any(%s) order by 1, 2",
        ids,
    )
    found["workload chart"] = rounded(
        rows(
            connection,
            "select * from workload_chart(array(select distinct workload_id from runs where run_id = any(%s)), %s, null, null,"
            " 10000, true, 40) order by time, workload, quantity, scope",
            ids,
            quantities,
        )
    )
    # Computed anew each time, in whatever order the samples come.
    epochs = json.dumps(compare(connection, selectors, align="epoch", every_attempt=True).as_dict(), default=str)
    found["compare along epochs"] = json.loads(epochs, parse_float=lambda digits: round(float(digits), 9))
    found["devices"] = rows(connection, "select r, device_label(r) from unnest(%s::text[]) r", ids)
    found["neighbours"] = rows(
        connection, "select r, n.* from unnest(%s::text[]) r, run_neighbours(r) n order by 1, 2", ids
    )
    found["chart by device"] = rounded(
        rows(
            connection,
            "select r, c.* from unnest(%s::text[]) r, run_devices_chart(r, 'gpu_power', null, null, 60000) c order by 1, 2, 3",
            ids,
        )
    )
    for by in ("run", "workload"):
        compared = compare(connection, selectors, by=by, every_attempt=True)
        changes = neighbours.of_comparison(connection, compared)
        found[f"compare by {by}"] = json.dumps(neighbours.marked(compared.as_dict(), changes), default=str, indent=1)
    for relation in LEVELS:
        found[relation] = sums(connection, relation, ids)
    for step in (1000, 10_000, 60_000):
        for aligned in (True, False):
            found[f"chart of {step} ms{', aligned' * aligned}"] = rounded(
                connection.execute(
                    "select * from run_chart(%s, array['gpu_power', 'load', 'threads'], null, null, %s, %s, 40)",
                    (ids, step, aligned),
                ).fetchall()
            )
    return found


def rows(connection: Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode(), values).fetchall()


def rounded(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(round(x, 6) if isinstance(x, float) else x for x in row) for row in rows]


def sums(connection: Connection, relation: str, ids: list[str]) -> list[tuple[Any, ...]]:
    return rounded(
        rows(
            connection,
            f"select run_id, metric, scope, sum(n)::int, sum(seconds), sum(area), min(min), max(max) from {relation}"
            " join run_sets using (runset_id) join series using (series_id) where run_id = any(%s) group by 1, 2, 3 order by 1, 2, 3",
            ids,
        )
    )
