"""Charts and summaries over a week of thirty million samples, against the same answer from raw samples."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from psycopg import pq

from benchmarks.support import week
from benchmarks.support.servers import Kind, own_database
from hypergauge.core.errors import BenchError
from hypergauge.sql.ingest import samples
from hypergauge.sql.maintenance.aggregates import pack, refresh
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.rows import value

__all__ = ["load", "measure", "milliseconds", "settle"]

POINTS = 2000  # of each of 16 series, at most
QUANTITY = "gpu_sm_active"
CALLS = 30

# A query by hand, without run_chart: by index, bounded in time, one series after the other.
_RAW = """
select x.at as time, s.label as run, concat_ws(' ', s.label, s.name, s.device) as series, s.quantity, s.scope,
       x.mean as value, x.low, x.high
from (select run_label(w, r) as label, r.name, s.device, s.quantity, rs.scope, s.series_id, rs.runset_id
      from runs r join workloads w using (workload_id) join run_sets rs using (run_id) join series s using (place_id)
      where r.run_id = '{run}' and s.quantity = '{quantity}' offset 0) s -- a label for each series, and not for each sample
cross join lateral (
    select {bin} as at, sum(value * dt) / sum(dt) as mean, min(value) as low, max(value) as high from samples
    where series_id = s.series_id and runset_id = s.runset_id and time >= '{start}' and time < '{stop}'
    group by 1) x
order by 1, 3
"""
_CHART = """
select * from run_chart(array[{runs}], array['{quantity}'], {start}, {stop}, {step}, {aligned}, 40, null, {per_device})
"""


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return milliseconds and ratios, in a database of its own on the server of the settings or of `server`'s kind.

    The default is an embedded one. A call's time lasts until its last row arrives, undecoded.
    `ratio` is for a chart with a point per minute, 360 per series; `dense_ratio` and `p95_ms` are for the largest number of
    points below 2,000: 1,080, one every 20 s. Sending those costs as much as computing them.
    """
    with own_database("query", server) as database, database.connect() as connection:
        cluster = load(database)
        settle(connection)
        results: dict[str, float | str] = {
            "flavour": inspect(connection).flavour.value,
            "version": inspect(connection).describe(),
            "samples": value(connection, float, "select sum(n)::float8 from samples_10m"),
            "series": value(connection, float, "select count(*)::float8 from series"),
            "runs": value(connection, float, "select count(*)::float8 from runs"),
            **timed(connection, cluster, CALLS),
        }
        if compress(connection, everything=True):
            results |= {f"compressed_{name}": result for name, result in timed(connection, cluster, CALLS).items()}
        return results


def load(
    database: Database, now: float | None = None, *, short_runs: int = week.SHORT_RUNS, with_live: bool = False
) -> week.Cluster:
    """Write the week, half an hour per COPY, as a collector drains its spool."""
    with database.connect() as connection:
        if inspect(connection).flavour is Flavour.TIMESCALEDB:
            # Policies run below, so that benchmarks find the same state.
            connection.execute(
                "select public.alter_job(job_id, scheduled => false) from timescaledb_information.jobs"
                " where hypertable_schema is not null or proc_schema = 'bench_internal'"
            )
        now = time.time() if now is None else now
        cluster = week.build(connection, now, short_runs=short_runs, with_live=with_live)
        for times, series, tags, values, seconds in week.rows(cluster, connection):
            with connection.transaction():
                samples.copy_samples(connection, samples.Columns(times, series, tags, values, seconds))
        connection.execute("delete from retag_queue")
        return cluster


def settle(connection: Connection) -> None:
    """Apply the database's policies: refresh, compress all but the newest days, summarise, analyze."""
    connection.execute("vacuum analyze")
    refresh(connection)
    pack(connection, datetime.now(UTC))
    compress(connection, everything=False)
    samples.summarise_ended_runs(connection, settled=60)
    connection.execute("vacuum analyze")


def compress(connection: Connection, *, everything: bool) -> bool:
    """Compress as the policies do, or all; return whether the flavour has compression."""
    if inspect(connection).flavour is not Flavour.TIMESCALEDB:
        return False
    after = {"samples": 1, "samples_10s": 2, "samples_1m": 3, "samples_10m": 8}
    for relation in after:
        chunks = connection.execute(
            "select public.show_chunks(%s::regclass, older_than => now() - make_interval(days => %s))::text",
            (f"bench.{relation}", -9 if everything else after[relation]),
        ).fetchall()
        for (chunk,) in chunks:
            connection.execute("call public.convert_to_columnstore(%s::regclass, if_not_columnstore => true)", (chunk,))
    return True


def timed(connection: Connection, cluster: week.Cluster, calls: int) -> dict[str, float]:
    """Return the milliseconds of each query, called `calls` times with different arguments."""
    dice = random.Random(0)
    ends = {run: _span(connection, run) for run in (cluster.long_run, cluster.week_run)}

    def chart(runs: Sequence[str], quantity: str, step: float, *, per_device: bool = False) -> str:
        # A few seconds later each time, so that no two calls are equal.
        shift = dice.uniform(0, 30)
        begin = datetime.fromtimestamp(ends[runs[0]][0] + shift, UTC).isoformat() if runs[0] in ends else None
        return _CHART.format(
            runs=", ".join(f"'{run}'" for run in runs), quantity=quantity, start=f"'{begin}'" if begin else "null",
            stop="null", step=step * 1000 + shift, aligned=begin is None, per_device=per_device,
        )  # fmt: skip

    def raw(step: float) -> str:
        begin, end = (datetime.fromtimestamp(at, UTC) for at in ends[cluster.long_run])
        begin += timedelta(seconds=dice.uniform(0, 30))
        return _RAW.format(
            run=cluster.long_run, quantity=QUANTITY, start=begin.isoformat(), stop=end.isoformat(),
            bin=f"date_bin('{step} s', time, timestamptz '2000-01-03 00:00:00+00')",
        )  # fmt: skip

    def summary() -> str:
        runs = ", ".join(f"'{run}'" for run in dice.sample(cluster.short_runs, len(cluster.short_runs)))
        return f"select * from run_summary where run_id in ({runs})"

    step = week.LONG / POINTS  # which rounds up to 20 s
    queries: dict[str, Callable[[], str]] = {
        "chart": lambda: chart([cluster.long_run], QUANTITY, step, per_device=True),
        "raw": lambda: raw(20),
        "minute": lambda: chart([cluster.long_run], QUANTITY, 60, per_device=True),
        "raw_minute": lambda: raw(60),
        "week": lambda: chart([cluster.week_run], "cpu_usage", week.WEEK / POINTS),
        "workload": lambda: chart(cluster.workload_runs, "gpu_memory_used", 60),
        "summary": summary,
        "experiment_summary": lambda: (
            "select s.* from run_summary s join runs using (run_id) join workloads using (workload_id)"
            f" where experiment_id = {week.EXPERIMENT} and quantity = 'cpu_usage'"
        ),
        "samples_of_a_run": lambda: (
            f"select * from run_samples where run_id = '{dice.choice(cluster.short_runs)}' and quantity = 'cpu_usage'"
        ),
        "samples_by_label": lambda: (
            f"select * from run_samples where run = '{week.EXPERIMENT}/{dice.randint(3, 12)}/1' and quantity = 'cpu_usage'"
        ),
    }
    taken: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(calls):
        for name, query in queries.items():
            taken[name].append(milliseconds(connection, query()))
    results = {f"{name}_ms": statistics.median(times) for name, times in taken.items()}
    return {
        "p95_ms": statistics.quantiles(taken["chart"], n=20)[-1],
        "ratio": results["raw_minute_ms"] / results["minute_ms"],
        "dense_ratio": results["raw_ms"] / results["chart_ms"],
        **results,
    }


def milliseconds(connection: Connection, statement: str, *, empty: bool = False) -> float:
    """Return the time until an answer's last row; no rows are an error, unless `empty`."""
    # In binary, as in Grafana's driver, and without the client's decoding.
    began = time.perf_counter()
    result = connection.pgconn.exec_params(statement.encode(), [], result_format=pq.Format.BINARY)
    elapsed = time.perf_counter() - began
    if result.status != pq.ExecStatus.TUPLES_OK or not (result.ntuples or empty):
        raise BenchError(f"no answer: {result.error_message.decode()} {statement}")
    return elapsed * 1000


def _span(connection: Connection, run: str) -> tuple[float, float]:
    row = connection.execute(
        "select extract(epoch from started_at)::float8, extract(epoch from ended_at)::float8 from runs where run_id = %s",
        (run,),
    ).fetchone()
    assert row is not None
    return row[0], row[1]
