"""The exporter ``nvml``: GPUs and MIG instances from the driver, with the share of each run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from prometheus_client.core import Metric

from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunEnd
from hypergauge.core.system.processes import RunProcesses
from hypergauge.exporters.nvml.energy import EnergySplit, instances_of
from hypergauge.exporters.nvml.families import BOARD, DEVICE, Families
from hypergauge.exporters.process.run_exits import RunExits
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.gpu.inventory import Gpu, MigInstance
from hypergauge.gpu.library import load
from hypergauge.gpu.reader import GpuReader
from hypergauge.gpu.sample import GpuProcess, GpuSample, Reader, Sample

__all__ = ["NvmlExporter"]

# NVML lists it among the reasons for lower clocks; it holds nobody up.
_NOTHING_TO_DO = "gpu_idle"
# The kernel cuts off after 15 characters.
_MPS_SERVER = "nvidia-cuda-mps-server"[:15]


class NvmlExporter:
    """Reads the GPUs, and tells of each run what its processes have of them.

    A run's energy is shown for as long as it goes on, whether or not it has processes on a GPU at the moment. From the
    reading after its end on, its totals are shown for a minute more, dated to its last millisecond: what the GPU has used
    between the last reading and the end counts as the run's.

    Parameters
    ----------
    options
        With `ExporterOptions.simulate`, simulated GPUs.
    reader
        What to read instead of NVML.
    """

    name = "nvml"

    def __init__(self, options: ExporterOptions, reader: Reader | None = None) -> None:
        self._options, self._opened = options, reader
        self._processes = RunProcesses()
        self._run_exits = RunExits(options.runs_dir)
        self._energy = EnergySplit()
        self._runs: dict[int, str] = {}  # by pid, at the last scan
        self._seen: dict[str, float] = {}  # when a run last had processes, Unix seconds
        self._gpus: dict[str, Gpu] = {}
        self._xids: set[tuple[str, int]] = set()

    def check(self) -> str | None:
        """Return why the GPUs cannot be read, ``None`` where they can."""
        try:
            return self._reader.problem()
        except BadRequest as error:
            return str(error)

    def close(self) -> None:
        """Let go of NVML; a later reading begins anew, and goes on with the totals."""
        if self._opened is not None:
            self._opened.close()

    def collect(self) -> Iterator[Metric]:
        """Read all GPUs once."""
        sample = self._reader.read()
        trees = self._processes.scan()
        self._run_exits.look(sample.time)
        runs = {
            process.pid: run_id for run_id, tree in trees.items() if self._tells_of(run_id) for process in tree.members
        }
        live = {run_id for run_id in runs.values() if any(not process.zombie for process in trees[run_id].members)}
        # One that has ended while this was read goes on until the next reading, which knows what it has used.
        ended = {run_id: end for run_id, end in self._run_exits.recent.items() if end.ended_at <= sample.time}
        live -= ended.keys()
        self._share_energy(sample, runs, ended)

        families = Families()
        for one in sample.gpus:
            self._gpus[one.gpu.uuid] = one.gpu
            self._add_gpu(families, one, sample.driver)
            _add_processes(families, one, {pid: run_id for pid, run_id in runs.items() if run_id in live})
        for uuid in sample.lost:
            simulated = _simulated(uuid in self._gpus and self._gpus[uuid].simulated)
            families.add("lost", {"UUID": uuid, **simulated}, 1)
        self._add_starts(families, live, ended)
        self._add_energy(families, {one.gpu.uuid for one in sample.gpus}, live, ended)
        return families.all()

    @property
    def _reader(self) -> Reader:
        if self._opened is None:
            self._opened = GpuReader(load(self._options.simulate, self._options.home))
        return self._opened

    def _tells_of(self, run_id: str) -> bool:
        if run_id in self._run_exits:
            return run_id in self._run_exits.recent
        return not self._options.own_runs or self._run_exits.knows(run_id)

    def _share_energy(self, sample: Sample, runs: dict[int, str], ended: Mapping[str, RunEnd]) -> None:
        # A process may have ended between the reading and the scan.
        known, self._runs = self._runs | runs, runs
        gpus = tuple(
            replace(one, processes=tuple(p for p in one.processes if p.pid in known or not _serves_mps(p.pid)))
            for one in sample.gpus
        )
        ends = {run_id: end.ended_at for run_id, end in ended.items()}
        self._energy.update(replace(sample, gpus=gpus), known, ends)
        self._seen.update(dict.fromkeys(runs.values(), sample.time))
        self._seen = {
            run_id: seen_at
            for run_id, seen_at in self._seen.items()
            if self._run_exits.remembers(run_id, seen_at, sample.time)
        }
        self._energy.forget(self._seen.__contains__)

    def _add_gpu(self, families: Families, one: GpuSample, driver: str) -> None:
        board = _of_gpu(one.gpu)
        about = {
            "name": one.gpu.name,
            "driver": driver,
            "pci_bus_id": one.pci_bus_id,
            "device": f"nvidia{one.minor}",
            "mig": "enabled" if one.gpu.mig_enabled else "disabled",
            "activity": one.activity or "none",
        }
        families.add("info", {**board, **about}, 1)
        for device in one.devices:
            _add_figures(families, DEVICE, device.figures, {**board, **_of_instance(device.instance)})
        _add_figures(families, BOARD, one.board, board)
        for reason, is_so in (one.throttle or {}).items():
            if reason == _NOTHING_TO_DO:
                continue
            families.add("throttled", {**board, "reason": reason}, is_so)
        for xid, count in sorted(one.xids.items()):
            # A new one is shown as 0 once, so that who takes differences sees the first as well.
            key = one.gpu.uuid, xid
            families.add("xid_errors_total", {**board, "xid": str(xid)}, count if key in self._xids else 0)
            self._xids.add(key)
        if one.last_xid is not None:
            families.add("last_xid", board, one.last_xid)

    def _add_starts(self, families: Families, live: Iterable[str], ended: Mapping[str, RunEnd]) -> None:
        # For a run that has nothing of a GPU yet too: so its energy, when there is any, is known to begin at 0.
        simulated = _simulated(any(gpu.simulated for gpu in self._gpus.values()))
        for run_id in sorted(live):
            end = self._run_exits.recent.get(run_id)
            started_at = self._run_exits.started_at(run_id) if end is None else end.started_at
            if started_at is not None:
                families.add("run_start_time_seconds", {"run_id": run_id, **simulated}, started_at)
        shared = {share.run_id for board in self._energy.boards.values() for share in board.runs}
        for run_id in sorted(shared & ended.keys()):
            end = ended[run_id]
            labels = {"run_id": run_id, **simulated}
            families.add("run_start_time_seconds", labels, end.started_at)
            families.add("run_end_time_seconds", labels, end.ended_at)

    def _add_energy(
        self, families: Families, answered: Container[str], live: Container[str], ended: Mapping[str, RunEnd]
    ) -> None:
        for uuid, board in self._energy.boards.items():
            gpu = _of_gpu(board.gpu)
            if uuid in answered:
                families.add("idle_energy_joules_total", gpu, board.idle)
                families.add("other_energy_joules_total", gpu, board.other)
            for share, joules in board.runs.items():
                run = {"run_id": share.run_id, "method": share.method}
                labels = {**gpu, **_of_instance(share.instance), **run}
                if share.run_id in ended or (share.run_id in live and uuid in answered):
                    families.add("attributed_energy_joules_total", labels, joules)


def _add_figures(
    families: Families,
    table: Mapping[str, tuple[str, Mapping[str, str]]],
    figures: Mapping[str, float],
    labels: Mapping[str, str],
) -> None:
    for name, (family, more) in table.items():
        if name in figures:
            families.add(family, {**labels, **more}, figures[name])


def _add_processes(families: Families, one: GpuSample, runs: Mapping[int, str]) -> None:
    """Add what each run has of a GPU, or of its instances. Where it is not known of all of its processes, nothing is."""
    instances = instances_of(one)
    members: dict[tuple[str, MigInstance | None], list[GpuProcess]] = {}
    for process in one.processes:
        if process.pid in runs:
            members.setdefault((runs[process.pid], instances.get(process.gpu_instance_id)), []).append(process)
    for (run_id, instance), processes in members.items():
        labels = {**_of_gpu(one.gpu), **_of_instance(instance), "run_id": run_id}
        families.add("run_processes", labels, len(processes))
        sizes = [process.memory_bytes for process in processes if process.memory_bytes is not None]
        if len(sizes) == len(processes):
            families.add("run_memory_bytes", labels, sum(sizes))
        shares = [process.sm_utilization for process in processes if process.sm_utilization is not None]
        if len(shares) == len(processes):
            families.add("run_sm_utilization_ratio", labels, min(sum(shares), 1.0))


def _of_gpu(gpu: Gpu) -> dict[str, str]:
    return {"UUID": gpu.uuid, "gpu": str(gpu.index), **_simulated(gpu.simulated)}


def _of_instance(instance: MigInstance | None) -> dict[str, str]:
    if instance is None:
        return {}
    return {"GPU_I_ID": str(instance.gpu_instance_id), "GPU_I_PROFILE": instance.profile}


def _simulated(is_so: bool) -> dict[str, str]:
    return {"simulated": "true"} if is_so else {}


def _serves_mps(pid: int) -> bool:
    """Return whether it is the server of MPS, which has a context on the GPU and computes for its clients alone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n") == _MPS_SERVER
    except OSError:
        return False
