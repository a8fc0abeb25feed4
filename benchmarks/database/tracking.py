"""Same samples through MLflow's tracking server and through ours, in and out.

In: metrics of simulated GPUs, second by second. MLflow receives them by ``log_batch`` of 1000 over REST from one process on
one connection; ours is the whole path from a response's bytes to committed rows. Out: one curve of 100,000 points. MLflow
returns it by ``MlflowClient.get_metric_history``, its only way to all points; ours by ``run_chart``, once in the 2,000 points
of a chart (each with its minimum and maximum), once in all. Both stores are on the same database server.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read at import

from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

from benchmarks.support import telemetry
from benchmarks.support.servers import Kind, own_database
from hypergauge.collector.convert.exposition import Parser
from hypergauge.collector.convert.rates import Rates
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.collector.write.writer import Writer
from hypergauge.core.files.run_folder import RunEnd
from hypergauge.core.services import free_port
from hypergauge.sql.ingest import targets
from hypergauge.sql.maintenance.aggregates import refresh
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.rows import value

__all__ = ["measure"]

SECONDS = 3000  # of all series, for ours: enough to make the start negligible
BATCH, BATCHES = 1000, 60  # MLflow's limit per request, and number of requests
POINTS, CHART_POINTS = 100_000, 2_000
_TIMES = 3
_KEY = "gpu_power"


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return samples and points per second of both, and their ratios."""
    with own_database("mlflow", server) as database, database.session() as connection:
        expositions = _expositions()
        own = _own_ingest(database, connection, expositions)
        _own_curve(database, connection)
        flavour = inspect(connection).flavour.value
        with _server(database, connection) as client:
            experiment = client.create_experiment("benchmark")
            theirs = _their_ingest(client, experiment, expositions)
            run_id = _their_curve(client, experiment)
            history = _median(lambda: _checked(len(client.get_metric_history(run_id, _KEY)), POINTS))
        span = POINTS / CHART_POINTS
        chart = _median(lambda: _chart(database, span * 1000, CHART_POINTS // 2))
        every = _median(lambda: _chart(database, 1000, POINTS))
    return {
        "flavour": flavour,
        "samples_per_second": own,
        "mlflow_samples_per_second": theirs,
        "ingest_ratio": own / theirs,
        "chart_seconds": chart,
        "chart_all_points_seconds": every,
        "mlflow_history_seconds": history,
        "chart_ratio": history / chart,
        "chart_all_points_ratio": history / every,
    }


def _expositions() -> list[bytes]:
    host = telemetry.Host()
    expositions = []
    for second in range(SECONDS):
        host.tick(float(second))
        expositions.append(host.dcgm())
    return expositions


def _own_ingest(database: Database, connection: Connection, expositions: list[bytes]) -> float:
    """Return samples per second from bytes to committed rows."""
    target = targets.register_target(connection, host="node1", listener="dcgm", instance="", url="none")
    parser, rates, access = Parser(), Rates(1.0), threading.Condition()
    spool = Spool(Path(database.settings.home) / "spool")
    writer = Writer(database, spool, access, CollectorMetrics())
    definitions: dict[int, SeriesDefinition] = {}
    # From now on, as live samples: late ones would also cost a refresh of the aggregates.
    start, written = time.time(), 0
    began = time.perf_counter()
    for second, text in enumerate(expositions):
        scrape = parser.parse(text)
        for ref, series in scrape.new.items():
            definitions[ref] = SeriesDefinition(target, series.metric, series.kind, dict(series.labels))
        found = rates.samples(scrape, start + second)
        written += len(found.refs)
        with access:
            spool.append(SpoolRecord(found.times, found.refs, found.values, found.dts, definitions))
            access.notify()
        if second == 0:
            writer.start()  # after the first record: else it would first wait for more
    writer.stop(timeout=600)
    seconds = time.perf_counter() - began
    spool.close()
    _checked(value(connection, int, "select count(*) from samples"), written)
    return written / seconds


def _own_curve(database: Database, connection: Connection) -> None:
    """Write a run's power, a sample per second."""
    started_at = time.time() - POINTS - 3600
    run_id = uuid.uuid4().hex
    experiments.claim_experiment(connection, 1, name="benchmark", source="benchmark", into=True)
    workload = experiments.open_workload(connection, 1, 1)
    runs.create_runs(
        connection,
        [
            runs.NewRun(
                run_id=run_id, mlflow_run_id=run_id, workload_id=workload, position=1, attempt=1, name="curve", owner="",
                command="", environment="-", collocation="-", devices="", params={}, host="node2", fingerprint=run_id,
            )
        ],
    )  # fmt: skip
    runs.start_runs(connection, workload, [runs.Placement(run_id, "node2", gpu_uuid="GPU-1")], started_at)
    runs.end_run(connection, run_id, RunEnd("finished", started_at, started_at + POINTS, 0, None, 0.0, 0, 0, 0))
    target = targets.register_target(connection, host="node2", listener="dcgm", instance="", url="none")
    definition = SeriesDefinition(target, "DCGM_FI_DEV_POWER_USAGE", "gauge", {"UUID": "GPU-1"})
    spool = Spool(Path(database.settings.home) / "curve")
    times = np.linspace(started_at, started_at + POINTS - 1, POINTS)
    for part in np.array_split(np.arange(POINTS), 20):
        spool.append(
            SpoolRecord(times[part], np.zeros(len(part), np.uint32), _curve()[part], np.ones(len(part), np.float32), {0: definition})
        )  # fmt: skip
    writer = Writer(database, spool, threading.Condition(), CollectorMetrics())
    writer.start()
    writer.stop(timeout=600)
    spool.close()
    refresh(connection)


def _curve() -> npt.NDArray[np.float64]:
    random = np.random.default_rng(0)
    power = 600 + 50 * np.sin(np.arange(POINTS) / 500) + random.normal(0, 5, POINTS)
    return np.round(power, 3)


def _chart(database: Database, step_ms: float, at_least: int) -> None:
    with database.session() as connection:
        rows = connection.execute(
            "select * from run_chart((select array_agg(run_id) from runs), array['gpu_power'], null, null, %s, false, 1)",
            (step_ms,),
        ).fetchall()
    if len(rows) < at_least:
        raise RuntimeError(f"the chart has {len(rows)} points")


@contextlib.contextmanager
def _server(database: Database, connection: Connection) -> Iterator[MlflowClient]:
    """Run MLflow's server as our stack does, on the same database in a schema of its own."""
    connection.execute("create schema mlflow")
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    home = Path(database.settings.home)
    with (home / "mlflow.log").open("wb") as log:
        words = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *words, "--artifacts-destination", str(home / "artifacts")],
            env={
                **{name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"},
                "MLFLOW_BACKEND_STORE_URI": database.sqlalchemy_url("mlflow"),
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            },
            stdout=log,
            stderr=log,
            cwd="/",
        )
        try:
            _await(f"{uri}/health", server)
            yield MlflowClient(tracking_uri=uri)
        finally:
            server.terminate()
            server.wait()


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    import urllib.error
    import urllib.request

    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError) as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("MLflow's server does not answer") from error
            time.sleep(0.2)


def _their_ingest(client: MlflowClient, experiment: str, expositions: list[bytes]) -> float:
    parser = Parser()
    metrics: list[Metric] = []
    names: dict[int, str] = {}
    start = time.time() - len(expositions)
    for second, text in enumerate(expositions):
        scrape = parser.parse(text)
        for ref, series in scrape.new.items():
            labels = dict(series.labels)
            names[ref] = "/".join([series.metric, labels["gpu"], labels.get("GPU_I_ID", "-")])
        metrics += [
            Metric(names[ref], value, int((start + second) * 1000), second)
            for ref, value in zip(scrape.refs.tolist(), scrape.values.tolist(), strict=True)
        ]
        if len(metrics) >= BATCH * BATCHES:
            break
    return BATCH * BATCHES / _log(client, client.create_run(experiment).info.run_id, metrics[: BATCH * BATCHES])


def _their_curve(client: MlflowClient, experiment: str) -> str:
    run_id: str = client.create_run(experiment).info.run_id
    start = time.time() - POINTS
    _log(client, run_id, [Metric(_KEY, v, int((start + n) * 1000), n) for n, v in enumerate(_curve().tolist())])
    return run_id


def _log(client: MlflowClient, run_id: str, metrics: list[Metric]) -> float:
    began = time.perf_counter()
    for first in range(0, len(metrics), BATCH):
        client.log_batch(run_id, metrics=metrics[first : first + BATCH])
    return time.perf_counter() - began


def _median(work: Callable[[], None]) -> float:
    seconds = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _checked(count: int, wanted: int) -> None:
    if count != wanted:
        raise RuntimeError(f"{count} of {wanted} samples exist")
