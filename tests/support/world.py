"""Small world in a real database: runs with placements, and samples through the collector."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hypergauge.collector.convert.exposition import Parser
from hypergauge.collector.convert.rates import Rates
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord
from hypergauge.collector.write.writer import Writer
from hypergauge.core.files.run_folder import RunEnd
from hypergauge.sql.ingest import targets
from hypergauge.sql.ingest.choices import Choice
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.server.database import Connection, Database
from tests.support.waiting import HUNG_SECONDS

HOST = "node1"
LEVELS = {"samples_10s": 10, "samples_1m": 60, "samples_10m": 600}  # their buckets in seconds


@dataclass
class World:
    """Database of a test, written through the product's functions. Times are Unix seconds."""

    database: Database
    folder: Path
    connection: Connection
    targets: dict[str, int] = field(default_factory=dict)
    next_ref: int = 0

    def target(self, exporter: str) -> int:
        if exporter not in self.targets:
            self.targets[exporter] = targets.register_target(
                self.connection, host=HOST, listener=exporter, instance="", url=f"http://{exporter}"
            )
        return self.targets[exporter]

    def run(
        self,
        started_at: float,
        ended_at: float | None = None,
        *,
        experiment: int = 20,
        workload: int = 1,
        position: int = 1,
        attempt: int = 1,
        gpu: str | None = None,
        gpu_instance: int | None = None,
        name: str = "train",
        command: str = "train.py",
        collocation: str = "-",
        simulated: bool = False,
        exporters: Choice | None = None,
    ) -> str:
        """Start a run on the host (and a GPU), end it at `ended_at` if given, and return its id."""
        experiments.claim_experiment(self.connection, experiment, name="test", source="test.csv", into=True)
        workload_id = experiments.open_workload(self.connection, experiment, workload)
        run_id = uuid.uuid4().hex
        run = runs.NewRun(
            run_id=run_id, mlflow_run_id=uuid.uuid4().hex, workload_id=workload_id, position=position, attempt=attempt,
            name=name, owner="me", command=command, environment="-", collocation=collocation, devices=gpu or "",
            params={"lr": "0.1"}, host=HOST, fingerprint=uuid.uuid4().hex, simulated=simulated,
            exporters=exporters,
        )  # fmt: skip
        runs.create_runs(self.connection, [run])
        placement = runs.Placement(run_id, HOST, gpu_uuid=gpu, gpu_instance_id=gpu_instance)
        runs.start_runs(self.connection, workload_id, [placement], started_at)
        if ended_at is not None:
            self.end(run_id, started_at, ended_at)
        return run_id

    def end(self, run_id: str, started_at: float, ended_at: float, status: str = "finished") -> None:
        code = 0 if status == "finished" else 1
        runs.end_run(self.connection, run_id, RunEnd(status, started_at, ended_at, code, None, 0.0, 0, 0, 0))

    def write(self, *records: SpoolRecord, metrics: CollectorMetrics | None = None) -> CollectorMetrics:
        """Send records through spool and writer, and return the writer's counts."""
        metrics = metrics or CollectorMetrics()
        spool = Spool(self.folder)
        writer = Writer(self.database, spool, threading.Condition(), metrics)
        for record in records:
            spool.append(record)
        writer.start()
        writer.stop(timeout=HUNG_SECONDS)
        assert spool.depth == 0
        spool.close()
        return metrics

    def refresh(self) -> None:
        """Do what background jobs do in time: refresh the aggregates, and pack the samples, even of hours still open."""
        aggregates.refresh(self.connection)
        self.connection.execute("call pack('infinity')")

    def gauge(
        self, metric: str, times: list[float], values: list[float], labels: Mapping[str, str] | None = None,
        exporter: str = "host", dt: float = 1.0,
    ) -> SpoolRecord:  # fmt: skip
        """Return a record of one gauge."""
        definition = SeriesDefinition(self.target(exporter), metric, "gauge", dict(labels or {}))
        count = len(times)
        self.next_ref += 1
        return SpoolRecord(
            np.array(times), np.full(count, self.next_ref, np.uint32), np.array(values, np.float64), np.full(count, dt, np.float32),
            {self.next_ref: definition},
        )  # fmt: skip

    def scraped(self, scrapes: list[tuple[float, bytes]], exporter: str, interval: float = 1.0) -> SpoolRecord:
        """Return one record with all samples of scrapes at these times."""
        parser, rates = Parser(), Rates(interval)
        parts = [rates.samples(parser.parse(content), time) for time, content in scrapes]
        target = self.target(exporter)
        definitions = {
            self.next_ref + 1 + ref: SeriesDefinition(target, series.metric, series.kind, dict(series.labels))
            for ref, series in enumerate(parser.series)
        }
        first = np.uint32(self.next_ref + 1)
        self.next_ref += len(parser.series)
        return SpoolRecord(
            np.concatenate([part.times for part in parts]), first + np.concatenate([part.refs for part in parts]),
            np.concatenate([part.values for part in parts]), np.concatenate([part.dts for part in parts]),
            definitions,
        )  # fmt: skip


def rows(world: World, statement: str, *values: Any) -> list[Any]:
    """Return the rows of a query."""
    return world.connection.execute(statement.encode(), values).fetchall()


def one(world: World, statement: str, *values: Any) -> Any:
    """Return the only row of a query; its value, if it has one column."""
    [row] = rows(world, statement, *values)
    return row[0] if len(row) == 1 else row
