"""Export and import of a run with millions of samples."""

from __future__ import annotations

import functools
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.support.servers import Kind, own_database
from hypergauge.core.files.run_folder import RunEnd
from hypergauge.insight.export.files import FORMS
from hypergauge.insight.export.samples_file import write_samples
from hypergauge.sql.ingest import samples, targets
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer import capsule
from hypergauge.sql.transfer.importing import import_capsule

__all__ = ["measure"]

SAMPLES = 10_000_000
_GPUS, _METRICS = 8, ("POWER_USAGE", "GPU_TEMP", "FB_USED", "GPU_UTIL", "SM_CLOCK")
_RUN = "ab" * 16
_SECONDS = 3600


def measure(server: Kind | None = None) -> dict[str, float | str]:
    """Return samples per second, bytes per sample, and the process's peak memory, with two databases of its own."""
    with (
        own_database("from", server) as source, own_database("to", server) as target, source.session() as connection,
        tempfile.TemporaryDirectory() as folder,
    ):  # fmt: skip
        count = _load(connection, time.time() // 3600 * 3600)
        selected = select_runs(connection, [])
        results: dict[str, float | str] = {"flavour": inspect(connection).flavour.value, "samples": float(count)}
        for form in FORMS:
            file = Path(folder) / f"a{form}"
            results |= _timed(f"export{form}", count, functools.partial(write_samples, connection, selected, file))
            results[f"bytes{form}"] = file.stat().st_size / count
            file.unlink()
        file = Path(folder) / "a.capsule"
        results |= _timed("export.capsule", count, lambda: capsule.export(connection, selected, file))
        results["bytes.capsule"] = file.stat().st_size / count
        results |= _timed("import", count, lambda: import_capsule(target, file))
        peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        return {**results, "peak_mib": int(peak[1]) / 1024 if peak else "unknown"}


def _timed(name: str, count: int, work: Callable[[], object]) -> dict[str, float | str]:
    began, began_cpu = time.perf_counter(), time.process_time()
    work()
    elapsed, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return {f"{name}_per_second": count / elapsed, f"{name}_cpu_seconds": cpu}


def _load(connection: Connection, now: float) -> int:
    """Write a run that ends at `now` (Unix seconds) with one sample per second of its GPUs; return their number."""
    gpus = [f"GPU-{number}" for number in range(_GPUS)]
    width = _GPUS * len(_METRICS)
    seconds = SAMPLES // width
    begin = now - seconds
    experiments.claim_experiment(connection, 1, name="benchmark", source="benchmark", into=True)
    workload = experiments.open_workload(connection, 1, 1)
    run = runs.NewRun(
        run_id=_RUN, mlflow_run_id=None, workload_id=workload, position=1, attempt=1, name="long", owner="", command="",
        environment="-", collocation="-", devices="+".join(gpus), params={}, host="node0", fingerprint=_RUN,
    )  # fmt: skip
    runs.create_runs(connection, [run])
    runs.start_runs(connection, workload, [runs.Placement(_RUN, "node0", gpu) for gpu in gpus], begin)
    runs.end_run(connection, _RUN, RunEnd("finished", begin, now, 0, None, 0.0, 0, 0, 0))
    target = targets.register_target(connection, host="node0", listener="dcgm", instance="", url="none")
    series = [(f"DCGM_FI_DEV_{metric}", {"UUID": gpu}, "gauge") for gpu in gpus for metric in _METRICS]
    opened = samples.open_series(connection, target, series)
    sets = {one.place_id: one.runset_id for one in samples.run_set_segments(connection, 0.0)}
    ids = np.array([one.series_id for one in opened], np.int32)
    tags = np.array([sets[one.place_id] for one in opened], np.int32)
    dice = np.random.default_rng(0)
    for start in range(0, seconds, _SECONDS):
        times = np.arange(begin + start, begin + min(start + _SECONDS, seconds))
        values = np.round(250 + np.cumsum(dice.normal(0, 1, (len(times), width)), axis=0), 3)
        columns = samples.Columns(
            np.repeat(times, width), np.tile(ids, len(times)), np.tile(tags, len(times)), values.ravel(),
            np.ones(values.size, np.float32),
        )  # fmt: skip
        with connection.transaction():
            samples.copy_samples(connection, columns, compressed=True)
    connection.execute("delete from retag_queue")
    connection.execute("select summarise(run_id) from runs")
    connection.execute("vacuum analyze")
    return seconds * width
