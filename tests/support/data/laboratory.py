"""Samples of the gallery's runs, as from exporters and a collector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hypergauge.collector.spool.records import SpoolRecord
from hypergauge.sql.ingest import targets
from tests.support.world import World

if TYPE_CHECKING:
    from tests.support.data.gallery import Show

Curve = npt.NDArray[np.float64]

GIB = 2.0**30
CORES = 16
IDLE_WATTS, BUSY_WATTS = 72.0, 640.0
INSTANCE = 3 / 7  # of a GPU


class Laboratory:
    """Hosts and GPUs, scraped every `interval` seconds until `now` (Unix seconds); `write` writes all samples."""

    def __init__(self, world: World, now: float, interval: float) -> None:
        self.world = world
        self.now = now
        self.interval = interval
        self.records: list[SpoolRecord] = []
        self._noise = np.random.default_rng(0)
        self._scraped: dict[str, Curve] = {}

    def measure(self, host: str, here: list[Show]) -> None:
        """Add samples of a host, from before its first run until now."""
        start = min(show.start for show in here) - 120
        times = np.arange(start, self.now, self.interval)
        cores, memory = np.zeros_like(times), np.zeros_like(times)
        for show in here:
            mine, activity = self._activity(show, times)
            cores[mine] += show.training.cores * activity
            memory[mine] += show.training.memory * GIB
            self._processes(show, times[mine], activity)
        self._host(host, times, cores, memory)
        for gpu in sorted({show.gpu for show in here if show.gpu is not None}):
            self._whole_gpu(host, [show for show in here if show.gpu == gpu], times)

    def look_back(self, hosts: set[str]) -> None:
        """Write an hour of each of the days before, with idle hosts."""
        for day in (1, 2):
            times = self.now - day * 86_400 + np.arange(0, 3600, 5 * self.interval)
            for host in sorted(hosts):
                self._host(host, times, np.zeros_like(times), np.zeros_like(times))
            self._flush()

    def write(self) -> None:
        """Write all samples, and the collector's own metrics and state of targets."""
        for key, times in list(self._scraped.items()):
            self._see(key, times, {"exporter": key.split(" of ")[0]}, {"bench_exporter_up": np.ones_like(times)})
        if self._scraped:
            self._collector()
        named = [key.split(" of ") for key in self.world.targets]
        rows = [targets.TargetRow(host, listener, "", f"http://{host}:9400") for listener, host in named]
        held = targets.claim_targets(self.world.connection, "gallery", "node1", 1, rows)
        state = targets.TargetState(True, self.now, 0.002, 0.001)
        targets.report_targets(self.world.connection, {one: state for one in held if one is not None}, "gallery")
        self.world.connection.execute("update targets set lease_until = now() + interval '1 day'")
        self._flush()

    def _flush(self) -> None:
        self.world.write(*self.records)
        self.records.clear()

    def _activity(self, show: Show, times: Curve) -> tuple[npt.NDArray[np.bool_], Curve]:
        """Return the times of a run, and its load at them, about 1 while it trains."""
        mine = (times >= show.start) & (times < show.start + show.seconds)
        elapsed = (times[mine] - show.start) / show.seconds
        epoch = (elapsed - 0.05) / 0.9 * show.training.epochs % 1
        activity = np.where(epoch > 0.85, 0.55, 1.0)
        activity[(elapsed < 0.05) | (elapsed > 0.95)] = 0.15
        drift = 0.04 * np.sin(elapsed * 40 + show.position)
        return mine, np.clip(activity + drift + self._noise.normal(0, 0.03, len(activity)), 0.02, None)

    def _see(self, key: str, times: Curve, labels: Mapping[str, str], values: Mapping[str, Curve]) -> None:
        """Add values of an exporter; `key` is ``EXPORTER of HOST``."""
        if not len(times):
            return
        listener, host = key.split(" of ")
        if key not in self.world.targets:
            self.world.targets[key] = targets.register_target(
                self.world.connection, host=host, listener=listener, instance="", url=f"http://{host}:9400"
            )
        self._scraped.setdefault(key, np.arange(times[0], self.now, self.interval))
        seconds = float(times[1] - times[0]) if len(times) > 1 else self.interval
        self.records += [
            self.world.gauge(metric, times.tolist(), curve.tolist(), labels, key, dt=seconds)
            for metric, curve in values.items()
        ]

    def _processes(self, show: Show, times: Curve, activity: Curve) -> None:
        elapsed = times - show.start
        memory = show.training.memory * GIB * (1 - 0.8 * np.exp(-elapsed / 30))
        labels = {"run_id": show.run_id}
        self._see(f"process of {show.host}", times, labels, {
            "bench_process_cpu_seconds_total": show.training.cores * activity,
            "bench_process_proportional_memory_bytes": memory,
            "bench_process_peak_memory_bytes": memory,
            "bench_process_read_bytes_total": np.where(activity < 0.3, 4e8, 2e7) * activity,
            "bench_process_written_bytes_total": np.where(activity < 0.7, 3e7, 1e5) * activity,
            "bench_process_threads": np.full_like(times, 12 + 2 * show.position),
            "bench_process_processes": np.full_like(times, 3),
            **({"bench_process_instructions_per_cycle": 1.4 + 0.4 * activity} if show.profilers == "perf" else {}),
        })  # fmt: skip
        if show.gpu is None:
            return
        busy = np.clip(show.training.share * activity / show.slowdown, 0, 1)
        labels = {**_labels(show), **labels}
        self._see(f"nvml of {show.host}", times, labels, {
            "bench_gpu_run_memory_bytes": show.training.gpu_memory * GIB * (1 - np.exp(-elapsed / 8)),
            "bench_gpu_run_sm_utilization_ratio": busy,
        })  # fmt: skip
        labels["method"] = "sm_time" if show.instance is None else "instance_size"
        watts = {"bench_gpu_attributed_energy_joules_total": (BUSY_WATTS - IDLE_WATTS) * busy}
        self._see(f"nvml of {show.host}", times, labels, watts)

    def _host(self, host: str, times: Curve, cores: Curve, memory: Curve) -> None:
        others = np.clip(0.3 + self._noise.normal(0, 0.05, len(times)), 0, None)
        for mode, busy in (("user", 0.9 * cores + others), ("system", 0.1 * cores), ("idle", CORES - cores - others)):
            labels = {"cpu": "0", "mode": mode}
            self._see(f"host of {host}", times, labels, {"node_cpu_seconds_total": np.clip(busy, 0, None)})
        self._see(f"host of {host}", times, {}, {
            "node_load1": cores + others,
            "node_memory_MemTotal_bytes": np.full_like(times, 128 * GIB),
            "node_memory_MemAvailable_bytes": 120 * GIB - memory,
            "node_pressure_cpu_waiting_seconds_total": np.clip(cores / CORES, 0, 1) ** 3,
            "node_rapl_package_joules_total": 45 + 9 * cores,
        })  # fmt: skip
        self._see(f"host of {host}", times, {"device": "eth0"}, {
            "node_network_receive_bytes_total": 2e5 + 4e6 * cores,
            "node_network_transmit_bytes_total": 1e5 + 2e5 * cores,
        })  # fmt: skip

    def _whole_gpu(self, host: str, here: list[Show], times: Curve) -> None:
        """Add values of a GPU, or of each of its instances and the whole device."""
        key, whole_gpu = f"nvml of {host}", _labels(here[0], whole=True)
        whole = np.zeros_like(times)
        for instance in sorted({show.instance for show in here}, key=lambda one: one or 0):
            busy, used = np.zeros_like(times), np.full_like(times, 0.6 * GIB)
            on_it = [show for show in here if show.instance == instance]
            for show in on_it:
                mine, activity = self._activity(show, times)
                busy[mine] += show.training.share * activity / (show.slowdown if instance is None else 1)
                used[mine] += show.training.gpu_memory * GIB
            busy = np.clip(busy, 0, 1)
            whole += busy if instance is None else busy * INSTANCE
            self._see(key, times, _labels(on_it[0]), {
                "bench_gpu_graphics_active_ratio": np.clip(busy * 1.1, 0, 1),
                "bench_gpu_sm_active_ratio": busy,
                "bench_gpu_sm_occupancy_ratio": 0.45 * busy,
                "bench_gpu_tensor_active_ratio": 0.38 * busy,
                "bench_gpu_memory_active_ratio": 0.5 * busy,
                "bench_gpu_memory_used_bytes": used,
                "bench_gpu_memory_total_bytes": np.full_like(times, (80 if instance is None else 40) * GIB),
            })  # fmt: skip
        watts = IDLE_WATTS + (BUSY_WATTS - IDLE_WATTS) * np.clip(whole, 0, 1)
        self._see(key, times, whole_gpu, {
            "bench_gpu_power_watts": watts,
            "bench_gpu_power_peak_watts": watts + 15,
            "bench_gpu_power_limit_watts": np.full_like(times, 700.0),
            "bench_gpu_idle_energy_joules_total": np.full_like(times, IDLE_WATTS),
            "bench_gpu_other_energy_joules_total": np.zeros_like(times),
            "bench_gpu_temperature_celsius": np.round(30 + watts / 16),
        })  # fmt: skip
        self._see(key, times, {**whole_gpu, "clock": "sm"}, {"bench_gpu_clock_hertz": np.full_like(times, 1.98e9)})
        info = {**whole_gpu, "name": "NVIDIA H100 80GB HBM3", "driver": "575.57.08"}
        self._see(key, times, info, {"bench_gpu_info": np.ones_like(times)})

    def _collector(self) -> None:
        times = np.arange(min(seen[0] for seen in self._scraped.values()), self.now, 10.0)
        count = len(self._scraped)
        rate = 600 + self._noise.normal(0, 5, len(times))
        # Half an hour ago the database was unreachable for 90 s.
        away = (times > self.now - 1800) & (times < self.now - 1710)
        self._see("collector of node1", times, {}, {
            "bench_collector_samples_total": np.where(away, 0, rate),
            "bench_collector_scraped_samples_total": rate,
            "bench_collector_sample_rate_hertz": rate,
            "bench_collector_series": np.full_like(times, 612),
            "bench_collector_scrape_seconds_sum": 0.004 * count * (1 + self._noise.random(len(times)) / 5),
            "bench_collector_scrape_lag_seconds_sum": 0.001 * count * (1 + self._noise.random(len(times))),
            "bench_collector_missed_scrapes_total": np.where(away, 0.1, 0),
            "bench_collector_write_errors_total": np.where(away, 0.2, 0),
            "bench_collector_write_seconds_sum": np.where(away, 0, 0.02),
            "bench_collector_write_seconds_count": np.where(away, 0, 1.0),
            "bench_collector_spool_records": np.where(away, np.cumsum(away) * 10, 1),
            "bench_collector_spool_bytes": np.where(away, np.cumsum(away) * 1.5e5, 2e4),
        })  # fmt: skip
        for outcome, each in (("ok", count), ("timeout", 0)):
            values = {"bench_collector_scrapes_total": np.full_like(times, each)}
            self._see("collector of node1", times, {"outcome": outcome}, values)
        lines = {"bench_collector_dropped_lines_total": np.where(away, 0, 0.1)}
        self._see("collector of node1", times, {"reason": "future"}, lines)


def _labels(show: Show, *, whole: bool = False) -> dict[str, str]:
    """Return the labels of a run's GPU or instance."""
    assert show.gpu_uuid is not None
    labels = {"UUID": show.gpu_uuid, "gpu": str(show.gpu), "simulated": "true"}
    if show.instance is not None and not whole:
        labels |= {"GPU_I_ID": str(show.instance), "GPU_I_PROFILE": "3g.40gb"}
    return labels
