"""Lists, states, summaries and new series of a catalog with thousands of runs and a million series, and no samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.support.servers import Kind, own_database
from hypergauge.collector.write.series import OPENED_AT_ONCE
from hypergauge.insight.comparison.comparison import compare
from hypergauge.sql.ingest.samples import open_series
from hypergauge.sql.ingest.targets import register_target
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.server.database import Connection

__all__ = ["fill", "measure"]

RUNS, EXPERIMENTS = 5000, 100
HOSTS, GPUS = 200, 8  # GPUs per host
# Series of each process tree, GPU and host: a million with the runs above.
PROCESS, GPU, HOST = 100, 250, 500
# New series of one target, of each kind.
NEW = 20_000
QUERIES = {
    "run_flags": "select * from run_flags",
    "flags_of_50": "select f.* from run_flags f join runs using (run_id) join workloads using (workload_id) where experiment_id = 1",
    "run_list": "select * from run_list",
    "run_quality": "select * from run_quality",
    "run_summary_of_50": "select s.* from run_summary s join runs using (run_id) join workloads using (workload_id)"
    " where experiment_id = 1",
}


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return the milliseconds of queries over the catalog, in a database of its own, once its pages are in memory."""
    with own_database("catalog", server) as database, database.connect() as connection:
        began = time.perf_counter()
        fill(connection, RUNS, PROCESS, GPU, HOST)
        results: dict[str, float | str] = {
            "flavour": inspect(connection).flavour.value,
            "fill_s": time.perf_counter() - began,
        }
        connection.execute("set statement_timeout = '100s'")
        calls: dict[str, Callable[[], object]] = {
            name: partial(_rows, connection, text) for name, text in QUERIES.items()
        }
        calls |= {
            "list_all": lambda: select_runs(connection, []),
            "list_experiment": lambda: select_runs(connection, ["1"]),
            "compare_experiment": lambda: compare(connection, ["1"]),
        }
        for name, call in calls.items():
            for _ in range(2):
                began = time.perf_counter()
                call()
                results[f"{name}_ms"] = (time.perf_counter() - began) * 1000
        target = register_target(connection, host="node0", listener="many", instance="", url="http://node0")
        for name, series in _new_series().items():
            began = time.perf_counter()
            for at in range(0, NEW, OPENED_AT_ONCE):
                open_series(connection, target, series[at : at + OPENED_AT_ONCE])
            results[f"new_series_of_{name}_hertz"] = NEW / (time.perf_counter() - began)
        return results


def fill(connection: Connection, runs: int, process: int, gpu: int, host: int) -> None:
    """Add ended runs over three months, each on a GPU, and series of process trees, GPUs and hosts."""
    sizes = {"runs": runs, "experiments": EXPERIMENTS, "hosts": HOSTS, "gpus": GPUS}
    with connection.transaction():
        connection.execute("alter table placements disable trigger placements_to_run_sets")
        for statement in _RUNS:
            connection.execute(statement.encode(), sizes)
        connection.execute("alter table placements enable trigger placements_to_run_sets")
        for kind, count in {"process": process, "gpu": gpu, "host": host}.items():
            connection.execute(_SERIES.encode(), {"kind": kind, "count": count})
    connection.execute("analyze")


def _new_series() -> dict[str, list[tuple[str, Mapping[str, str], str]]]:
    """Return series of disks, of GPUs, of metrics outside the catalog, and of as many runs, by what they are of."""
    numbers = range(NEW)
    return {
        "disks": [("node_disk_read_bytes_total", {"device": f"nvme{n}n1"}, "counter") for n in numbers],
        "gpus": [("DCGM_FI_DEV_POWER_USAGE", {"UUID": f"GPU-{n % GPUS}", "pod": f"pod-{n}"}, "gauge") for n in numbers],
        "pods": [(f"kube_pod_{n % 50}", {"pod": f"pod-{n}", "uid": f"{n:032x}"}, "gauge") for n in numbers],
        "runs": [("bench_process_cpu_seconds_total", {"run_id": f"{n:032x}"}, "counter") for n in numbers],
    }


def _rows(connection: Connection, statement: str) -> int:
    return len(connection.execute(statement.encode()).fetchall())


_RUNS = [
    "insert into experiments (experiment_id, name, source) select n, 'many', 'many.csv' from generate_series(1, %(experiments)s) n",
    "insert into workloads (experiment_id, workload) select n, 1 from generate_series(1, %(experiments)s) n",
    """
    insert into runs (run_id, workload_id, position, attempt, name, owner, status, started_at, ended_at, exit_code, command,
                      environment, collocation, devices, host, fingerprint, summarised, evaluated)
    select md5(n::text), w.workload_id, n, 1, 'train', 'me', 'finished', now() - n * interval '90 days' / %(runs)s,
           now() - n * interval '90 days' / %(runs)s + interval '20 min', 0, 'train.py', '-', '-',
           'GPU-' || n %% (%(hosts)s * %(gpus)s), 'node' || n %% %(hosts)s, md5(n::text), true, true
    from generate_series(1, %(runs)s) n join workloads w on w.experiment_id = n %% %(experiments)s + 1
    """,
    "insert into placements (run_id, host, gpu_uuid, started_at, ended_at) select run_id, host, devices, started_at, ended_at from runs",
    "insert into places (kind, host) select distinct 'host', host from runs",
    "insert into places (kind, host, gpu_uuid) select distinct 'gpu', host, devices from runs",
    "insert into places (kind, host, run_id) select 'process', host, run_id from runs",
    """
    insert into run_sets (runset_id, place_id, run_id, scope, started_at, ended_at)
    select nextval('runset_ids'), p.place_id, r.run_id, case p.kind when 'gpu' then 'device' else p.kind end, r.started_at, r.ended_at
    from runs r join places p on p.host = r.host
         and (p.kind = 'host' or p.kind = 'gpu' and p.gpu_uuid = r.devices or p.kind = 'process' and p.run_id = r.run_id)
    """,
    """
    insert into targets (host, listener, instance, url)
    select distinct host, 'many', '', 'http://' || host from places
    """,
]
_SERIES = """
    insert into series (target_id, metric, metric_id, quantity, place_id, host, device, labels, counts)
    select t.target_id, m.metric, m.metric_id, m.quantity, p.place_id, p.host, p.gpu_uuid,
           jsonb_strip_nulls(jsonb_build_object('run_id', p.run_id, 'UUID', p.gpu_uuid, 'part', n)), m.kind = 'counter'
    from places p join targets t on t.host = p.host and t.listener = 'many' cross join generate_series(1, %(count)s) n
    join (select row_number() over (order by metric_id) - 1 as number, count(*) over () as metrics, m.* from metrics m) m
         on m.number = n %% m.metrics
    where p.kind = %(kind)s
"""
