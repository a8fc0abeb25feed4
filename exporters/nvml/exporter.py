"""The exporter ``nvml``: GPUs and MIG instances from the driver, with the share of each run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from prometheus_client.core import Metric

from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunEnd
from hypergauge.core.system.processes import RunProcesses
from hypergauge.exporters.nvml.energy import EnergySplit, instances_of
from hypergauge.exporters.nvml.families import DEVICE, GPU
from hypergauge.exporters.process.run_exits import RunExits
from hypergauge.exporters.serving.families import Families
from hypergauge.exporters.serving.gpu_helps import GPU_HELPS
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.library import load
from hypergauge.gpu.sampling.reader import GpuReader
from hypergauge.gpu.sampling.sample import GpuProcess, GpuSample, Reader, Sample

__all__ = ["NvmlExporter"]

# NVML's one reason for lower clocks that slows no process down.
_IDLE = "gpu_idle"


class NvmlExporter:
    """Exporter of GPUs, and of the usage of each run on them.

    It exposes a run's energy while the run is live, also without processes on a GPU. After the end it exposes the final
    totals for a minute, dated to the run's last millisecond. The energy between the last sample and the end belongs to
    the run.

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
        self._processes = RunProcesses()
        self._run_exits = RunExits(options.runs_dir, options.own_runs)
        self._energy = EnergySplit()
        self._runs: dict[int, str] = {}  # by pid, at the last scan
        self._seen: dict[str, float] = {}  # time of a run's last process, Unix seconds
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
        trees = self._processes.scan()
        self._run_exits.update(sample.time)
        runs = {
            process.pid: run_id
            for run_id, tree in trees.items()
            if self._run_exits.exposes(run_id)
            for process in tree.members
        }
        live = {run_id for run_id in runs.values() if any(not process.zombie for process in trees[run_id].members)}
        # A run that ended during this read stays live until the next one, which has its totals.
        ended = {run_id: end for run_id, end in self._run_exits.recent.items() if end.ended_at <= sample.time}
        live -= ended.keys()
        self._split_energy(sample, runs, ended)

        families = Families(GPU_HELPS)
        for one in sample.gpus:
            self._gpus[one.gpu.uuid] = one.gpu
            self._add_gpu(families, one, sample.driver)
            _add_processes(families, one, {pid: run_id for pid, run_id in runs.items() if run_id in live})
        for uuid in sample.lost:
            simulated = _simulated(uuid in self._gpus and self._gpus[uuid].simulated)
            families.add("bench_gpu_lost", {"UUID": uuid, **simulated}, 1)
        self._add_starts(families, live, ended)
        self._add_energy(families, {one.gpu.uuid for one in sample.gpus}, live, ended)
        return families

    @property
    def _reader(self) -> Reader:
        if self._opened is None:
            self._opened = GpuReader(load(self._options.simulate, self._options.home))
        return self._opened

    def _split_energy(self, sample: Sample, runs: dict[int, str], ended: Mapping[str, RunEnd]) -> None:
        # A process may have ended between the sample and the scan.
        known, self._runs = self._runs | runs, runs
        ends = {run_id: end.ended_at for run_id, end in ended.items()}
        self._energy.update(sample, known, ends)
        self._seen.update(dict.fromkeys(runs.values(), sample.time))
        self._seen = {
            run_id: seen_at
            for run_id, seen_at in self._seen.items()
            if self._run_exits.keeps(run_id, seen_at, sample.time)
        }
        self._energy.forget(self._seen.__contains__)

    def _add_gpu(self, families: Families, one: GpuSample, driver: str) -> None:
        labels = _of_gpu(one.gpu)
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
            _add_metrics(families, DEVICE, device.metrics, {**labels, **_of_instance(device.instance)})
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

    def _add_starts(self, families: Families, live: Iterable[str], ended: Mapping[str, RunEnd]) -> None:
        # Also for a run without processes on a GPU yet: its energy then starts at 0.
        simulated = _simulated(any(gpu.simulated for gpu in self._gpus.values()))
        for run_id in sorted(live):
            end = self._run_exits.recent.get(run_id)
            started_at = self._run_exits.started_at(run_id) if end is None else end.started_at
            if started_at is not None:
                families.add("bench_gpu_run_start_time_seconds", {"run_id": run_id, **simulated}, started_at)
        shared = {share.run_id for energy in self._energy.totals.values() for share in energy.runs}
        for run_id in sorted(shared & ended.keys()):
            end = ended[run_id]
            labels = {"run_id": run_id, **simulated}
            families.add("bench_gpu_run_start_time_seconds", labels, end.started_at)
            families.add("bench_gpu_run_end_time_seconds", labels, end.ended_at)

    def _add_energy(
        self, families: Families, answered: Container[str], live: Container[str], ended: Mapping[str, RunEnd]
    ) -> None:
        for uuid, energy in self._energy.totals.items():
            gpu = _of_gpu(energy.gpu)
            if uuid in answered:
                families.add("bench_gpu_idle_energy_joules_total", gpu, energy.idle)
                families.add("bench_gpu_other_energy_joules_total", gpu, energy.other)
            for share, joules in energy.runs.items():
                run = {"run_id": share.run_id, "method": share.method}
                labels = {**gpu, **_of_instance(share.instance), **run}
                if share.run_id in ended or (share.run_id in live and uuid in answered):
                    families.add("bench_gpu_attributed_energy_joules_total", labels, joules)


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
        labels = {**_of_gpu(one.gpu), **_of_instance(instance), "run_id": run_id}
        families.add("bench_gpu_run_processes", labels, len(processes))
        sizes = [process.memory_bytes for process in processes if process.memory_bytes is not None]
        if len(sizes) == len(processes):
            families.add("bench_gpu_run_memory_bytes", labels, sum(sizes))
        shares = [process.sm_utilization for process in processes if process.sm_utilization is not None]
        if len(shares) == len(processes):
            families.add("bench_gpu_run_sm_utilization_ratio", labels, min(sum(shares), 1.0))


def _of_gpu(gpu: Gpu) -> dict[str, str]:
    return {"UUID": gpu.uuid, "gpu": str(gpu.index), **_simulated(gpu.simulated)}


def _of_instance(instance: MigInstance | None) -> dict[str, str]:
    if instance is None:
        return {}
    return {"GPU_I_ID": str(instance.gpu_instance_id), "GPU_I_PROFILE": instance.profile}


def _simulated(simulated: bool) -> dict[str, str]:
    return {"simulated": "true"} if simulated else {}
