"""The exporter ``process``: resource usage of each run, over all of its processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.core.system.processes import RunProcesses
from hypergauge.exporters.process.perf_counters import PerfCounters, PerfFamilies
from hypergauge.exporters.process.run_exits import RunExits
from hypergauge.exporters.process.usage import RunUsage
from hypergauge.exporters.serving.registry import ExporterOptions

__all__ = ["ProcessExporter"]


class ProcessExporter:
    """Reads the processes of each run that has any now, and what the folders of the runs say of those that ended.

    From the moment a run's folder holds its end, its live figures stop. For a minute its final totals are shown instead,
    with the time of the end. By that the collector dates them, so that whatever was used between the last scrape and the
    end counts as the run's: also all of a run so short that no scrape saw it.
    """

    name = "process"

    def __init__(self, options: ExporterOptions) -> None:
        self._processes = RunProcesses()
        self._own_runs = options.own_runs
        self._run_exits = RunExits(options.runs_dir)
        self._usage: dict[str, RunUsage] = {}
        self._runs_dir = options.runs_dir
        self._perf: dict[str, PerfCounters] = {}

    def check(self) -> str | None:
        """Return ``None`` where there is a ``/proc`` as on Linux."""
        return None if Path("/proc/self/stat").exists() else "it reads /proc, which this host does not have"

    def collect(self) -> Iterator[Metric]:
        """Read every process of every run once."""
        trees = self._processes.scan()
        now = time.time()
        self._run_exits.look(now)
        families, perf = _Families(), PerfFamilies()
        for run_id, tree in trees.items():
            if run_id not in self._run_exits and (not self._own_runs or self._run_exits.knows(run_id)):
                usage = self._usage.setdefault(run_id, RunUsage())
                if usage.update(tree, now):
                    families.add(run_id, usage, self._run_exits.started_at(run_id))
                    perf.add(run_id, self._perf_of(run_id), self._run_exits.started_at(run_id))
        for run_id, end in self._run_exits.recent.items():
            families.add_final(run_id, end, self._usage.get(run_id) or RunUsage())
            perf.add_final(run_id, self._perf_of(run_id))
        self._usage = {
            run_id: usage
            for run_id, usage in self._usage.items()
            if self._run_exits.remembers(run_id, usage.seen_at, now)
        }
        self._perf = {
            run_id: one for run_id, one in self._perf.items() if run_id in trees or run_id in self._run_exits.recent
        }
        families.by_tree.add_metric([], sum(tree.by_tree for tree in trees.values()))
        yield from families.all()
        yield from perf.all()

    def _perf_of(self, run_id: str) -> PerfCounters:
        """Return what perf has counted of a run by now: nothing, of most."""
        counters = self._perf.setdefault(run_id, PerfCounters(RunFolder(self._runs_dir / run_id).perf))
        counters.read()
        return counters


class _Families:
    """The exporter's metric families, a sample a run."""

    def __init__(self) -> None:
        self.start = _gauge("start_time_seconds", "When the run was released, in Unix seconds; its totals were 0 then.")
        self.end = _gauge("end_time_seconds", "When the run ended, in Unix seconds; its other lines are its last.")
        self.cpu = _counter("cpu_seconds_total", "User and system time that the run's processes have used.")
        self.read = _counter("read_bytes_total", "Bytes that the run's processes have caused to be read from storage.")
        self.written = _counter(
            "written_bytes_total", "Bytes that the run's processes have caused to be written to storage."
        )
        self.resident = _gauge("resident_memory_bytes", "Sum of the processes' resident set sizes.")
        self.proportional = _gauge(
            "proportional_memory_bytes", "Sum of the processes' proportional set sizes: shared pages count once."
        )
        self.peak = _gauge("peak_memory_bytes", "Largest sum of proportional set sizes that was seen.")
        self.threads = _gauge("threads", "Threads of the run's processes.")
        self.processes = _gauge("processes", "Processes of the run.")
        self.cores = _gauge(
            "available_cores",
            "Cores that the run may use: those of its affinity, within the quota of its control group.",
        )
        self.memory_limit = _gauge("memory_limit_bytes", "Memory that the run's control group may have at most.")
        self.by_tree = GaugeMetricFamily(
            "bench_process_attributed_by_tree",
            "Processes that belong to a run by their ancestors alone, since their environment does not say.",
            labels=[],
        )

    def all(self) -> Iterator[Metric]:
        """Yield the families."""
        yield from (
            self.start,
            self.end,
            self.cpu,
            self.read,
            self.written,
            self.resident,
            self.proportional,
            self.peak,
        )
        yield from (self.threads, self.processes, self.cores, self.memory_limit, self.by_tree)

    def add(self, run_id: str, usage: RunUsage, started_at: float | None) -> None:
        """Add what a run uses now."""
        figures = (
            (self.start, started_at),
            (self.cpu, usage.cpu_seconds),
            (self.read, usage.read_bytes if usage.storage_known else None),
            (self.written, usage.written_bytes if usage.storage_known else None),
            (self.resident, usage.resident_bytes),
            (self.proportional, usage.proportional_bytes),
            (self.peak, usage.peak_bytes),
            (self.threads, usage.threads),
            (self.processes, usage.processes),
            (self.cores, usage.limits.cores),
            (self.memory_limit, usage.limits.memory_bytes),
        )
        for family, figure in figures:
            if figure is not None:
                family.add_metric([run_id], figure)

    def add_final(self, run_id: str, end: RunEnd, usage: RunUsage) -> None:
        """Add what an ended run has used, and when it ended."""
        figures = (
            (self.start, end.started_at),
            (self.end, end.ended_at),
            (self.cpu, max(end.cpu_seconds, usage.cpu_seconds)),
            (self.read, max(end.read_bytes, usage.read_bytes)),
            (self.written, max(end.written_bytes, usage.written_bytes)),
            (self.peak, max(end.max_rss_bytes, usage.peak_bytes or 0)),
        )
        for family, figure in figures:
            family.add_metric([run_id], figure)


def _counter(name: str, help_text: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"bench_process_{name}", help_text, labels=["run_id"])


def _gauge(name: str, help_text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"bench_process_{name}", help_text, labels=["run_id"])
