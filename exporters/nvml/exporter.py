"""The exporter ``nvml``: GPUs and MIG instances from the driver, with the share of each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric

from hypergauge.core.errors import BadRequest
from hypergauge.exporters.energy.gpu_runs import GpuRuns, gpu_labels, instance_labels, simulated_label
from hypergauge.exporters.energy.gpu_split import instances_of
from hypergauge.exporters.nvml.families import DEVICE, GPU
from hypergauge.exporters.serving.families import Families
from hypergauge.exporters.serving.gpu_helps import GPU_HELPS
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.library import load
from hypergauge.gpu.sampling.reader import GpuReader
from hypergauge.gpu.sampling.sample import GpuProcess, GpuSample, Reader

__all__ = ["NvmlExporter"]

# NVML's one reason for lower clocks that slows no process down.
_IDLE = "gpu_idle"


class NvmlExporter:
    """Exporter of GPUs, and of the usage of each run on them; for its energy see `GpuRuns`.

    Parameters
    ----------
    options
        `ExporterOptions.simulate` selects simulated GPUs.
    reader
        Replacement for a reader of NVML.
    """

    name = "nvml"

    def __init__(self, options: ExporterOptions, reader: Reader | None = None) -> None:
        self._options, self._opened = options, reader
        self._runs = GpuRuns(options, "bench_gpu")
        self._gpus: dict[str, Gpu] = {}
        self._xids: set[tuple[str, int]] = set()

    def check(self) -> str | None:
        """Return the reason why the GPUs cannot be read, ``None`` where they can."""
        try:
            return self._reader.problem()
        except BadRequest as error:
            return str(error)

    def close(self) -> None:
        """Close NVML. The next call of `collect` opens it again and continues the totals."""
        if self._opened is not None:
            self._opened.close()

    def collect(self) -> Iterable[Metric]:
        """Read all GPUs once."""
        sample = self._reader.read()
        live = self._runs.update(sample)
        families = Families(GPU_HELPS)
        for one in sample.gpus:
            self._gpus[one.gpu.uuid] = one.gpu
            self._add_gpu(families, one, sample.driver)
            _add_processes(families, one, live)
        for uuid in sample.lost:
            simulated = simulated_label(uuid in self._gpus and self._gpus[uuid].simulated)
            families.add("bench_gpu_lost", {"UUID": uuid, **simulated}, 1)
        for measurement in self._runs.measurements():
            families.add(*measurement)
        return families

    @property
    def _reader(self) -> Reader:
        if self._opened is None:
            self._opened = GpuReader(load(self._options.simulate, self._options.home))
        return self._opened

    def _add_gpu(self, families: Families, one: GpuSample, driver: str) -> None:
        labels = gpu_labels(one.gpu)
        info = {
            "name": one.gpu.name,
            "driver": driver,
            "pci_bus_id": one.pci_bus_id,
            "device": f"nvidia{one.minor}",
            "mig": "enabled" if one.gpu.mig_enabled else "disabled",
            "activity": one.activity or "none",
        }
        families.add("bench_gpu_info", {**labels, **info}, 1)
        for device in one.devices:
            _add_metrics(families, DEVICE, device.metrics, {**labels, **instance_labels(device.instance)})
        _add_metrics(families, GPU, one.metrics, labels)
        for reason, active in (one.throttle or {}).items():
            if reason != _IDLE:
                families.add("bench_gpu_throttled", {**labels, "reason": reason}, active)
        for xid, count in sorted(one.xids.items()):
            # A new counter is exposed as 0 once, so that its first increase counts.
            key = one.gpu.uuid, xid
            families.add("bench_gpu_xid_errors_total", {**labels, "xid": str(xid)}, count if key in self._xids else 0)
            self._xids.add(key)
        families.add("bench_gpu_last_xid", labels, one.last_xid)


def _add_metrics(
    families: Families,
    table: Mapping[str, tuple[str, Mapping[str, str]]],
    metrics: Mapping[str, float],
    labels: Mapping[str, str],
) -> None:
    for name, (family, more) in table.items():
        if name in metrics:
            families.add(f"bench_gpu_{family}", {**labels, **more}, metrics[name])


def _add_processes(families: Families, one: GpuSample, runs: Mapping[int, str]) -> None:
    """Add the usage of each run on a GPU or its instances, where it is known for all of the run's processes."""
    instances = instances_of(one)
    members: dict[tuple[str, MigInstance | None], list[GpuProcess]] = {}
    for process in one.processes:
        if process.pid in runs:
            members.setdefault((runs[process.pid], instances.get(process.gpu_instance_id)), []).append(process)
    for (run_id, instance), processes in members.items():
        labels = {**gpu_labels(one.gpu), **instance_labels(instance), "run_id": run_id}
        families.add("bench_gpu_run_processes", labels, len(processes))
        sizes = [process.memory_bytes for process in processes if process.memory_bytes is not None]
        if len(sizes) == len(processes):
            families.add("bench_gpu_run_memory_bytes", labels, sum(sizes))
        shares = [process.sm_utilization for process in processes if process.sm_utilization is not None]
        if len(shares) == len(processes):
            families.add("bench_gpu_run_sm_utilization_ratio", labels, min(sum(shares), 1.0))
    _add_other_processes(families, one, runs)


def _add_other_processes(families: Families, one: GpuSample, runs: Mapping[int, str]) -> None:
    """Add the usage of processes outside runs on a GPU and its instances; 0 without any."""
    instances = instances_of(one)
    others: dict[MigInstance | None, list[GpuProcess]] = {instance: [] for instance in instances.values() or [None]}
    for process in one.processes:
        if process.pid not in runs:
            others.setdefault(instances.get(process.gpu_instance_id), []).append(process)
    for instance, processes in others.items():
        labels = {**gpu_labels(one.gpu), **instance_labels(instance)}
        families.add("bench_gpu_other_processes", labels, len(processes))
        sizes = [process.memory_bytes for process in processes if process.memory_bytes is not None]
        if len(sizes) == len(processes):
            families.add("bench_gpu_other_memory_bytes", labels, sum(sizes))
        shares = [process.sm_utilization for process in processes if process.sm_utilization is not None]
        if len(shares) == len(processes) and not one.gpu.mig_enabled:
            families.add("bench_gpu_other_sm_utilization_ratio", labels, min(sum(shares), 1.0))
