"""Every query of every dashboard over a week with two hundred runs, and the comparison of all runs."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from benchmarks.database import query
from benchmarks.support import grafana, week
from benchmarks.support.servers import Kind, own_database
from hypergauge.insight.comparison.comparison import compare
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.server.database import Connection

__all__ = ["measure"]

SHORT_RUNS = 200
CALLS = 5
LIMIT = 300.0  # limit of a panel's query in milliseconds
EPOCHS, STEPS = 10, 100  # of each run
DASHBOARDS = Path("dashboards/generated")


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return the milliseconds of each panel's slowest query, the slowest first, in a database of its own.

    The default is an embedded server; ``BENCH_DSN`` names another, and `server` a kind. A time is the median of five calls
    until the last row arrives, undecoded; that of the comparison is until its values are there. Variables select one run or workload, 8, 40 and all; on a dashboard of one run,
    one of six hours on 16 GPUs, a short one, one of a week, and a live one.
    """
    with own_database("dashboards", server) as database, database.connect() as connection:
        # It ends about when writing ends, so that panels of the present have data.
        cluster = query.load(database, time.time() + 600, short_runs=SHORT_RUNS, with_live=True)
        add_progress(connection)
        query.settle(connection)
        counted = connection.execute(
            "select (select sum(n)::float8 from samples_10m), (select count(*)::float8 from runs)"
        ).fetchone()
        assert counted is not None
        connection.execute("set role bench_reader")
        taken: dict[str, tuple[float, str]] = {}
        for path in sorted(DASHBOARDS.rglob("*.json")):
            dashboard = json.loads(path.read_text())
            for choice, value in choices(dashboard, cluster).items():
                for where, median in timed(connection, dashboard, value):
                    taken[where] = max(taken.get(where, (0.0, "")), (median, choice))
        runs = [run_id for (run_id,) in connection.execute("select run_id from runs")]
        ended = [run_id for (run_id,) in connection.execute("select run_id from runs where ended_at is not null")]
        slowest = sorted(taken.items(), key=lambda item: -item[1][0])
        return {
            "flavour": inspect(connection).flavour.value,
            "samples": counted[0],
            "runs": counted[1],
            "queries": float(len(taken)),
            "ended_runs": float(len(ended)),
            "run_summary_of_ended_ms": _median(
                connection,
                "select * from run_summary where run_id in (select run_id from runs where ended_at is not null)",
            ),
            "compare_ended_ms": _comparison_milliseconds(connection, ended),
            # A live run has no summary yet: it is computed from its samples, of two hours here.
            "run_summary_of_all_ms": _median(connection, "select * from run_summary"),
            "compare_all_ms": _comparison_milliseconds(connection, runs),
            f"above_{LIMIT:g}_ms": float(sum(median > LIMIT for median, _ in taken.values())),
            **{f"{where} ({choice})": median for where, (median, choice) in slowest},
        }


def add_progress(connection: Connection) -> None:
    """Give each run phases, epochs, steps and a loss, as the client and MLflow do."""
    rows = connection.execute(
        "select run_id, extract(epoch from started_at)::float8,"
        " extract(epoch from coalesce(ended_at, now()) - started_at)::float8 from runs"
    ).fetchall()
    for run_id, start, seconds in rows:
        length = seconds / (EPOCHS * STEPS)
        spans = [SpanRecord("train", None, "train", "phase", None, start, start + seconds, 1, None)]
        logged = []
        for step in range(EPOCHS * STEPS):
            begin, end = start + step * length, start + (step + 1) * length
            if step % STEPS == 0:
                epoch = step // STEPS
                spans.append(SpanRecord(
                    f"epoch{epoch}", "train", f"epoch {epoch}", "epoch", epoch, begin, begin + STEPS * length, 1, None
                ))  # fmt: skip
            parent = f"epoch{step // STEPS}"
            spans.append(SpanRecord(f"step{step}", parent, "step", "step", step, begin, end, 1, None))
            logged.append(SoftwareMetric("loss", step, end, 1 / (1 + step)))
        store_spans(connection, run_id, spans)
        store_software_metrics(connection, run_id, logged)


def choices(dashboard: grafana.Json, cluster: week.Cluster) -> dict[str, int | str]:
    """Return selections on a dashboard: numbers of runs or workloads, or one run."""
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    if "workload" not in variables:
        return {"all": SHORT_RUNS}
    if "run" in variables and not variables["run"]["multi"]:
        assert cluster.live_run is not None
        return {
            "long": cluster.long_run, "short": cluster.short_runs[-1], "week": cluster.week_run, "live": cluster.live_run
        }  # fmt: skip
    return {"one": 1, "8": 8, "40": 40, "all": 2 * SHORT_RUNS}


def timed(connection: Connection, dashboard: grafana.Json, choice: int | str) -> Iterator[tuple[str, float]]:
    """Yield each query of a dashboard by its position, with its median in milliseconds."""
    chosen: dict[str, grafana.Value] = {}
    span = grafana.Span(0, week.LONG)
    for variable in dashboard["templating"]["list"]:
        requested = grafana.variable_query(dashboard, variable, chosen, span)
        if requested is not None:
            there = [row[0] for row in connection.execute(requested.sql.encode()).fetchall()]
            chosen[variable["name"]] = _chosen(dashboard, variable, there, choice)
            yield requested.where, _median(connection, requested.sql)
        else:
            fixed = [option["value"] for option in variable.get("options", [])]
            chosen[variable["name"]] = fixed if variable.get("multi") else variable["current"]["value"]
    for requested in grafana.queries(dashboard, chosen, shown(connection, dashboard, chosen)):
        yield requested.where, _median(connection, requested.sql)


def _chosen(dashboard: grafana.Json, variable: grafana.Json, there: list[str], choice: int | str) -> grafana.Value:
    name, first = variable["name"], variable["current"].get("value")
    there = [one for one in there if one != "newest"] or [""]
    if not variable["multi"]:
        return choice if choice in there else first if first in there else there[0]
    counted = "workload" if not any(one["name"].startswith("run") for one in dashboard["templating"]["list"]) else "run"
    if name.startswith(counted) and isinstance(choice, int):
        return there[-choice:]
    return [one for one in first if one in there] or there


def shown(connection: Connection, dashboard: grafana.Json, chosen: Mapping[str, grafana.Value]) -> grafana.Span:
    """Return the time range: the run, all of the longest run since 1970, or the last hours."""
    if isinstance(fit := chosen.get("fit"), str):
        start, stop = 0.0, datetime.fromisoformat(fit).timestamp()
    elif isinstance(run := chosen.get("run"), str):
        row = connection.execute(
            "select extract(epoch from started_at)::float8, extract(epoch from coalesce(ended_at, now()))::float8"
            " from runs where run_id = %s",
            (run,),
        ).fetchone()
        assert row is not None
        start, stop = row
    else:
        hours = re.fullmatch(r"now-(\d+)h", dashboard["time"]["from"])
        stop = time.time()
        start = stop - week.HOUR * float(hours[1] if hours else 6)
    return grafana.Span(start, stop)


def _comparison_milliseconds(connection: Connection, runs: Sequence[str]) -> float:
    """Return the median duration of ``bench compare`` of runs, without the start of the command."""
    taken = []
    for _ in range(CALLS):
        began = time.perf_counter()
        compare(connection, runs)
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def _median(connection: Connection, statement: str) -> float:
    return statistics.median(query.milliseconds(connection, statement, empty=True) for _ in range(CALLS))
