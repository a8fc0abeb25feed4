"""Reductions of 10,000 tensors at 1,000 steps: written by the client, ingested by the delivery of a run, and read.

All default reductions of a collection ``weights`` are written: seven that change with each step, and two shares that stay 0.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.support.servers import Kind, own_database
from hypergauge.client.tensors import TensorFile
from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.scheduler.tracking.tensors import deliver_tensors
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import value

__all__ = ["measure"]

TENSORS, STEPS = 10_000, 1_000
_ROUNDS = 10
_BEGIN = 1_800_000_000.0
_RUN = "7" * 32
_CHANGING = ("min", "max", "mean", "std", "l1", "l2", "update_ratio")
_CONSTANT = ("zeros", "nonfinite")
# Charts and queries by name; the tensor is one in the middle.
_QUERIES = {
    "chart_ms": """
        with tensor as materialized (
            select run_id, tensor_set, array_position(names, %(name)s) as nth from tensor_sets
            where run_id = %(run)s and collection = 'weights' and %(name)s = any(names)
        )
        select v.time, v.l2[nth] from tensor join tensor_steps v using (run_id, tensor_set) order by v.time
    """,
    "norm_ms": """
        select v.time, v.norm from tensor_sets s join tensor_steps v using (run_id, tensor_set)
        where s.run_id = %(run)s and s.collection = 'weights' order by v.time
    """,
    "view_of_a_tensor_ms": "select time, l2 from tensor_stats where run_id = %(run)s and name = %(name)s order by time",
    "view_of_a_tensor_all_ms": "select * from tensor_stats where run_id = %(run)s and name = %(name)s order by time",
    "view_of_a_step_ms": "select name, l2 from tensor_stats where run_id = %(run)s and step = %(step)s",
}
# Every row of the view.
_SEARCH = "select count(*) from tensor_stats where run_id = %(run)s and nonfinite > 0"


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return the speed of writing and ingest, the size of a row (a tensor at a step), and times of queries, in medians."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, own_database("tensors", server) as database:
        folder = RunFolder(Path(name) / _RUN)
        folder.path.mkdir()
        names = [f"model.layers.{number // 10}.block.{number % 10}.weight" for number in range(TENSORS)]
        writing = _write(TensorFile(str(folder.tensors)), names)
        file_bytes = folder.tensors.stat().st_size
        with database.session() as connection:
            _place_run(connection)
            began = time.perf_counter()
            deliver_tensors(connection, folder)
            ingesting = time.perf_counter() - began
            began = time.perf_counter()
            deliver_tensors(connection, folder)
            again = time.perf_counter() - began
            shutil.rmtree(folder.path)
            connection.execute("vacuum analyze tensor_steps")
            connection.execute("analyze tensor_sets")
            size = value(connection, int, "select pg_total_relation_size('tensor_steps')")
            given = {"run": _RUN, "name": names[TENSORS // 2], "step": STEPS // 2}
            times = {name: _milliseconds(connection, query, given, _ROUNDS) for name, query in _QUERIES.items()}
            search = _milliseconds(connection, _SEARCH, given, 1)
    rows = TENSORS * STEPS
    return {
        "rows": float(rows),
        "write_rows_per_s": rows / writing,
        "file_bytes_per_row": file_bytes / rows,
        "ingest_rows_per_s": rows / ingesting,
        "ingest_again_s": again,
        "bytes_per_row": size / rows,
        **times,
        "view_of_all_rows_s": search / 1000,
    }


def _write(file: TensorFile, names: list[str]) -> float:
    """Write all steps; return the seconds that the file took."""
    chance = np.random.default_rng(1)
    usual = chance.lognormal(size=TENSORS)
    sizes = [1024 * (number % 7 + 1) for number in range(TENSORS)]
    constant = {name: np.zeros(TENSORS, "<f4").tobytes() for name in _CONSTANT}
    seconds = 0.0
    for step in range(STEPS):
        changing = {
            name: (usual * chance.lognormal(sigma=0.1, size=TENSORS)).astype("<f4").tobytes() for name in _CHANGING
        }
        began = time.perf_counter()
        file.write(step, "weights", names, sizes, {**changing, **constant}, at=_BEGIN + step)
        seconds += time.perf_counter() - began
    return seconds


def _place_run(connection: Connection) -> None:
    experiments.claim_experiment(connection, 1, name="tensors", source="tensors", into=True)
    workload = experiments.open_workload(connection, 1, 1)
    run = runs.NewRun(
        run_id=_RUN, mlflow_run_id=None, workload_id=workload, position=1, attempt=1, name="train", owner="", command="",
        environment="-", collocation="-", devices="", params={}, host="here", fingerprint=_RUN,
    )  # fmt: skip
    runs.create_runs(connection, [run])
    runs.start_runs(connection, workload, [runs.Placement(_RUN, "here")], _BEGIN)
    runs.end_run(connection, _RUN, RunEnd("finished", _BEGIN, _BEGIN + STEPS, 0, None, 0.0, 0, 0, 0))


def _milliseconds(connection: Connection, query: str, given: dict[str, object], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        connection.execute(query.encode(), given).fetchall()
        found.append(time.perf_counter() - began)
    return statistics.median(found) * 1000
