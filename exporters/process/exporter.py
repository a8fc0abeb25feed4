"""The exporter ``process``: resource usage of each run, over all of its processes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from prometheus_client.core import Metric

from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.core.system.processes import RunProcesses
from hypergauge.exporters.process.perf_counters import EVENTS_TOTAL, PERF_HELPS, PerfCounters
from hypergauge.exporters.process.run_exits import RunExits
from hypergauge.exporters.process.usage import RunUsage
from hypergauge.exporters.serving.families import Families
from hypergauge.exporters.serving.registry import ExporterOptions

__all__ = ["ProcessExporter"]

_SERVICES = "bench_services_cpu_seconds_total"
_HELPS = {
    f"bench_process_{name}": text
    for name, text in {
        "start_time_seconds": "Start of the run in Unix seconds; its totals were 0 then.",
        "end_time_seconds": "End of the run in Unix seconds; its other samples are final.",
        "cpu_seconds_total": "User and system time of the run's processes.",
        "read_bytes_total": "Bytes read from storage by the run's processes.",
        "written_bytes_total": "Bytes written to storage by the run's processes.",
        "resident_memory_bytes": "Sum of the processes' resident set sizes.",
        "proportional_memory_bytes": "Sum of the processes' proportional set sizes: shared pages count once.",
        "peak_memory_bytes": "Largest observed sum of proportional set sizes.",
        "threads": "Threads of the run's processes.",
        "processes": "Processes of the run.",
        "available_cores": "Cores available to the run: those of its affinity, within the quota of its control group.",
        "memory_limit_bytes": "Memory limit of the run's control group.",
        "attributed_by_tree": "Processes attributed to a run by their ancestors alone, without BENCH_RUN_ID.",
        **PERF_HELPS,
    }.items()
} | {_SERVICES: "User and system time of the stack's services on this host."}


class ProcessExporter:
    """Exporter of the processes of each run, and of the final totals of ended runs.

    The metrics of a live run stop when its folder records the end. For a minute the exporter then shows the final totals
    with the time of the end. The collector dates the totals by it, so the run's usage is complete even where no scrape
    saw the run.
    """

    name = "process"

    def __init__(self, options: ExporterOptions) -> None:
        self._processes = RunProcesses(services=True)
        self._services = RunUsage(cpu_alone=True)
        self._run_exits = RunExits(options.runs_dir, options.own_runs)
        self._usage: dict[str, RunUsage] = {}
        self._runs_dir = options.runs_dir
        self._perf: dict[str, PerfCounters] = {}

    def check(self) -> str | None:
        """Return ``None`` where the host has a ``/proc`` as on Linux."""
        return None if Path("/proc/self/stat").exists() else "it reads /proc, which this host does not have"

    def collect(self) -> Iterable[Metric]:
        """Read every process of every run once."""
        trees = self._processes.scan()
        now = time.time()
        exits = self._run_exits
        exits.update(now)
        families = Families(_HELPS)
        for run_id, tree in trees.items():
            if run_id in exits or not exits.exposes(run_id):
                continue
            usage = self._usage.setdefault(run_id, RunUsage())
            if usage.update(tree, now):
                started_at = exits.started_at(run_id)
                _add(families, run_id, {"start_time_seconds": started_at, **_live(usage)})
                counters = self._perf_of(run_id)
                if started_at is not None:
                    # Dated by perf's own clock, so that rates cover the interval that perf counted in.
                    counted_at = started_at + counters.seconds
                    _add(families, run_id, counters.live(), counted_at)
                    _add_events(families, run_id, counters, counted_at)
        for run_id, end in exits.recent.items():
            _add(families, run_id, _final(end, self._usage.get(run_id) or RunUsage()))
            counters = self._perf_of(run_id)
            _add(families, run_id, counters.final())
            _add_events(families, run_id, counters)
        self._usage = {run_id: one for run_id, one in self._usage.items() if exits.keeps(run_id, one.seen_at, now)}
        self._perf = {run_id: one for run_id, one in self._perf.items() if run_id in trees or run_id in exits.recent}
        by_tree = sum(tree.by_tree for run_id, tree in trees.items() if exits.exposes(run_id))
        families.add("bench_process_attributed_by_tree", {}, by_tree)
        self._services.update(self._processes.services, now)
        families.add(_SERVICES, {}, self._services.cpu_seconds)
        return families

    def _perf_of(self, run_id: str) -> PerfCounters:
        counters = self._perf.setdefault(run_id, PerfCounters(RunFolder(self._runs_dir / run_id).perf))
        counters.read()
        return counters


def _add(families: Families, run_id: str, values: Mapping[str, float | None], timestamp: float | None = None) -> None:
    for name, value in values.items():
        families.add(f"bench_process_{name}", {"run_id": run_id}, value, timestamp)


def _add_events(families: Families, run_id: str, counters: PerfCounters, timestamp: float | None = None) -> None:
    for event, total in counters.events().items():
        families.add(f"bench_process_{EVENTS_TOTAL}", {"run_id": run_id, "event": event}, total, timestamp)


def _live(usage: RunUsage) -> dict[str, float | None]:
    return {
        "cpu_seconds_total": usage.cpu_seconds,
        "read_bytes_total": usage.read_bytes if usage.storage_known else None,
        "written_bytes_total": usage.written_bytes if usage.storage_known else None,
        "resident_memory_bytes": usage.resident_bytes,
        "proportional_memory_bytes": usage.proportional_bytes,
        "peak_memory_bytes": usage.peak_bytes,
        "threads": usage.threads,
        "processes": usage.processes,
        "available_cores": usage.limits.cores,
        "memory_limit_bytes": usage.limits.memory_bytes,
    }


def _final(end: RunEnd, usage: RunUsage) -> dict[str, float | None]:
    return {
        "start_time_seconds": end.started_at,
        "end_time_seconds": end.ended_at,
        "cpu_seconds_total": max(end.cpu_seconds, usage.cpu_seconds),
        "read_bytes_total": max(end.read_bytes, usage.read_bytes),
        "written_bytes_total": max(end.written_bytes, usage.written_bytes),
        "peak_memory_bytes": max(end.max_rss_bytes, usage.peak_bytes or 0) or None,
    }
