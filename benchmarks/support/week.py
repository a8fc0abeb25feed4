"""Week of a plausible cluster: hosts, GPUs, MIG instances and runs, written as a collector writes them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypergauge.core.files.run_folder import RunEnd
from hypergauge.sql.ingest import samples, targets
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.server.database import Connection

__all__ = ["EXPERIMENT", "HOUR", "LONG", "SHORT_RUNS", "WEEK", "Cluster", "build", "rows"]

HOUR, WEEK = 3600.0, 7 * 86_400.0
EXPERIMENT = 1
SHORT_RUNS = 40
LONG = 6 * HOUR
_GPUS = 16  # of the host of the run of six hours

_HOST_METRICS = (
    "node_load1", "node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes", "node_pressure_cpu_waiting_seconds_total",
    "node_pressure_io_waiting_seconds_total", "node_pressure_memory_waiting_seconds_total", "node_rapl_package_joules_total",
)  # fmt: skip
_GPU_METRICS = (
    "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
)  # fmt: skip
_INSTANCE_METRICS = (*_GPU_METRICS[1:3], "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE")
_PROCESS_METRICS = (
    "bench_process_cpu_seconds_total", "bench_process_proportional_memory_bytes", "bench_process_peak_memory_bytes",
    "bench_process_read_bytes_total", "bench_process_written_bytes_total", "bench_process_threads",
)  # fmt: skip
_COLLECTOR_METRICS = (
    "bench_collector_series", "bench_collector_sample_rate_hertz", "bench_collector_samples_total",
    "bench_collector_scrapes_total", "bench_collector_missed_scrapes_total", "bench_collector_dropped_lines_total",
    "bench_collector_scrape_seconds_sum", "bench_collector_scrape_lag_seconds_sum", "bench_collector_write_seconds_sum",
    "bench_collector_write_seconds_count", "bench_collector_spool_records", "bench_collector_spool_bytes",
)  # fmt: skip

# Times, series, tags, values and seconds.
Columns = tuple[
    npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.float32]
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Group:
    """Series scraped together, every `interval` seconds of ``[begin, end)`` (Unix seconds)."""

    target: int
    series: tuple[tuple[str, dict[str, str]], ...]
    interval: float
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Cluster:
    """Series and runs of the week: one of six hours on 16 GPUs, one of the whole week, and short ones."""

    groups: tuple[Group, ...]
    begin: float
    end: float
    long_run: str
    week_run: str
    workload_runs: tuple[str, ...]
    short_runs: tuple[str, ...]
    live_run: str | None = None


def build(
    connection: Connection, now: float, seed: int = 0, *, short_runs: int = SHORT_RUNS, with_live: bool = False
) -> Cluster:
    """Insert the runs of a week that ends at `now` (Unix seconds), and return its series.

    With `with_live` there is one more, which began two hours before the end and has not ended.
    """
    end = now // 60 * 60 - 120
    begin = end - WEEK
    results = np.random.default_rng(seed)
    groups = [*_hosts(connection, begin, end), *_gpus(connection, begin, end)]
    long_end = end - 2 * HOUR
    long_run = _run(
        connection, 1, 1, "long", "node0", long_end - LONG, long_end, [_uuid(0, gpu) for gpu in range(_GPUS)]
    )
    week_run = _run(connection, 2, 1, "week", "node1", begin, end - 600, [])
    groups.append(_processes(connection, "node0", long_run, long_end - LONG, long_end))
    groups.append(_processes(connection, "node1", week_run, begin, end - 600))
    groups.append(_collector(connection, begin, end))
    short = []
    for number in range(short_runs):
        # Workloads of four runs side by side, one GPU each, spread over the week; the last one ended yesterday.
        workload, position = number // 4 + 3, number % 4 + 1
        start = begin + (workload - 3) * (WEEK - 2 * 86_400) / (short_runs // 4 - 1) + 0.25
        stop = start + float(results.uniform(1800, 3 * HOUR))
        host = f"node{2 + workload % 4}"
        short.append(_run(connection, workload, position, "short", host, start, stop, [_uuid(int(host[4:]), position)]))
        groups.append(_processes(connection, host, short[-1], start, stop))
    live = None
    if with_live:
        live = _run(connection, short_runs // 4 + 3, 1, "live", "node5", end - 2 * HOUR, None, [_uuid(5, 5)])
        groups.append(_processes(connection, "node5", live, end - 2 * HOUR, end))
    return Cluster(tuple(groups), begin, end, long_run, week_run, tuple(short[-4:]), tuple(short), live)


def rows(cluster: Cluster, connection: Connection, step: float = HOUR / 2) -> Iterator[Columns]:
    """Yield times, series, tags, values and seconds, `step` seconds at once, in the order of the scrapes."""
    results = np.random.default_rng(1)
    tags: dict[int, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int32]]] = {}
    segments = sorted(samples.run_set_segments(connection, 0.0), key=lambda one: one.started_at)
    for place_id in {one.place_id for one in segments}:
        mine = [one for one in segments if one.place_id == place_id]
        tags[place_id] = (
            np.array([one.started_at for one in mine]), np.array([one.ended_at for one in mine]),
            np.array([one.runset_id for one in mine], np.int32),
        )  # fmt: skip
    opened = [
        samples.open_series(connection, group.target, [(*one, "gauge") for one in group.series])
        for group in cluster.groups
    ]
    levels = [results.uniform(0.2, 0.9, len(group.series)) for group in cluster.groups]
    for begin in np.arange(cluster.begin, cluster.end, step):
        parts = []
        for group, series, level in zip(cluster.groups, opened, levels, strict=True):
            first = np.ceil((max(begin, group.begin) - group.begin) / group.interval) * group.interval + group.begin
            times = np.arange(first, min(begin + step, cluster.end, group.end), group.interval)
            if not len(times):
                continue
            by_place = {one.place_id: _tags(tags.get(one.place_id), times) for one in series}
            walk = np.cumsum(results.normal(0, 0.01, (len(times), len(series))), axis=0)
            values = np.round(np.abs(level + walk), 4)
            level[:] = np.clip(values[-1], 0.1, 1.0)
            parts.append((
                np.repeat(times, len(series)), np.tile(np.array([one.series_id for one in series], np.int32), len(times)),
                np.stack([by_place[one.place_id] for one in series], axis=1).ravel(), values.ravel(),
                np.full(values.size, group.interval, np.float32),
            ))  # fmt: skip
        times, series_ids, tagged, read, seconds = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(times, kind="stable")
        yield times[order], series_ids[order], tagged[order], read[order], seconds[order]


def _tags(
    spans: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int32]] | None,
    times: npt.NDArray[np.float64],
) -> npt.NDArray[np.int32]:
    if spans is None:
        return np.zeros(len(times), np.int32)
    started, ended, runset = spans
    at = np.searchsorted(started, times, side="right") - 1
    return np.where((at >= 0) & (times < ended[at]), runset[at], 0).astype(np.int32)


def _hosts(connection: Connection, begin: float, end: float) -> Iterator[Group]:
    for host in range(6):
        target = targets.register_target(connection, host=f"node{host}", listener="host", instance="", url="none")
        series: list[tuple[str, dict[str, str]]] = [(metric, {}) for metric in _HOST_METRICS]
        for cpu in range(4):
            modes = ("user", "system", "iowait", "idle")
            series += [("node_cpu_seconds_total", {"cpu": str(cpu), "mode": mode}) for mode in modes]
        for device in ("sda", "nvme0n1"):
            series += [(f"node_disk_{what}_bytes_total", {"device": device}) for what in ("read", "written")]
        series += [(f"node_network_{way}_bytes_total", {"device": "eth0"}) for way in ("receive", "transmit")]
        yield Group(target, tuple(series), 15.0, begin, end)


def _gpus(connection: Connection, begin: float, end: float) -> Iterator[Group]:
    for host in range(6):
        target = targets.register_target(connection, host=f"node{host}", listener="dcgm", instance="", url="none")
        gpus = [{"UUID": _uuid(host, gpu), "gpu": str(gpu)} for gpu in range(_GPUS if host == 0 else 8)]
        if host == 0:  # one quantity of each of its GPUs per second, all week
            yield Group(target, tuple(("DCGM_FI_PROF_SM_ACTIVE", gpu) for gpu in gpus), 1.0, begin, end)
        series = [(metric, gpu) for metric in _GPU_METRICS for gpu in gpus]
        if host == 5:
            instances = [{**gpus[0], "GPU_I_ID": str(7 + number), "GPU_I_PROFILE": "1g.10gb"} for number in range(7)]
            series += [(metric, instance) for metric in _INSTANCE_METRICS for instance in instances]
        yield Group(target, tuple(series), 30.0 if host else 15.0, begin, end)


def _collector(connection: Connection, begin: float, end: float) -> Group:
    target = targets.register_target(connection, host="node0", listener="collector", instance="", url="none")
    return Group(target, tuple((metric, {}) for metric in _COLLECTOR_METRICS), 10.0, begin, end)


def _processes(connection: Connection, host: str, run_id: str, begin: float, end: float) -> Group:
    target = targets.register_target(connection, host=host, listener="process", instance="", url="none")
    metrics = _PROCESS_METRICS if end - begin < WEEK / 2 else _PROCESS_METRICS[:1]
    return Group(target, tuple((metric, {"run_id": run_id}) for metric in metrics), 1.0, begin, end)


def _run(
    connection: Connection, workload: int, position: int, name: str, host: str, begin: float, end: float | None,
    gpus: list[str],
) -> str:  # fmt: skip
    experiments.claim_experiment(connection, EXPERIMENT, name="benchmark", source="benchmark", into=True)
    workload_id = experiments.open_workload(connection, EXPERIMENT, workload)
    run_id = uuid.uuid4().hex
    run = runs.NewRun(
        run_id=run_id, mlflow_run_id=None, workload_id=workload_id, position=position, attempt=1, name=name, owner="",
        command="train.py", environment="-", collocation="-", devices="+".join(gpus), params={}, host=host,
        fingerprint=run_id,
    )  # fmt: skip
    runs.create_runs(connection, [run])
    placements = [runs.Placement(run_id, host, gpu_uuid=gpu) for gpu in gpus] or [runs.Placement(run_id, host)]
    runs.start_runs(connection, workload_id, placements, begin)
    if end is not None:
        runs.end_run(connection, run_id, RunEnd("finished", begin, end, 0, None, 0.0, 0, 0, 0))
    return run_id


def _uuid(host: int, gpu: int) -> str:
    return f"GPU-{host:08x}-0000-4000-8000-{gpu:012x}"
