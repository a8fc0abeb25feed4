"""Processes on a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypergauge.gpu.devices import MigInstance
from hypergauge.gpu.queries import NO_SAMPLES, Queries, known
from hypergauge.gpu.sampling.sample import GpuProcess

__all__ = ["Processes"]

# Each with whether it lists clients of an MPS server.
_LISTS = (
    ("nvmlDeviceGetComputeRunningProcesses", False),
    ("nvmlDeviceGetGraphicsRunningProcesses", False),
    ("nvmlDeviceGetMPSComputeRunningProcesses", True),
)
_NO_INSTANCE = 2**32 - 1
# The kernel truncates names to 15 characters.
_MPS_SERVER = "nvidia-cuda-mps-server"[:15]


class Processes:
    """Processes on one GPU, from sample to sample."""

    def __init__(self, gpu: Queries) -> None:
        self._gpu = gpu
        # NVML's time stamps are microseconds of Unix time. The first sample covers the last second.
        self._seen_until = int((time.time() - 1) * 1e6)
        self._has_utilization = True

    def read(self, instances: Iterable[tuple[MigInstance, object]] | None) -> tuple[GpuProcess, ...]:
        """Return the processes with a context on the GPU, by pid.

        Parameters
        ----------
        instances
            The MIG instances, each with its handle as a MIG device; ``None`` without MIG mode.
        """
        found: dict[int, GpuProcess] = {}
        for function, mps in _LISTS:
            for one, instance_id in self._list(function, instances):
                before = found.get(one.pid, GpuProcess(one.pid))
                # A process may be in several lists, each time with all of its memory.
                sizes = [int(size) for size in (before.memory_bytes, one.usedGpuMemory) if known(size)]
                instance = instance_id if before.gpu_instance_id is None else before.gpu_instance_id
                found[one.pid] = GpuProcess(one.pid, max(sizes, default=None), None, instance, before.mps or mps)
        utilization = self._utilization() if found and instances is None else None
        servers = {pid for pid, one in found.items() if not one.mps and _serves_mps(pid)}
        processes = [one for pid, one in sorted(found.items()) if pid not in servers]
        return tuple(processes if utilization is None else _utilized(processes, servers, utilization))

    def _list(
        self, function: str, instances: Iterable[tuple[MigInstance, object]] | None
    ) -> Iterable[tuple[Any, int | None]]:
        listed = self._gpu.query(function)
        if instances is None:
            return [(one, None) for one in listed or ()]
        if listed is not None:
            return [(one, None if one.gpuInstanceId == _NO_INSTANCE else one.gpuInstanceId) for one in listed]
        # Users other than root may only query each instance.
        return [
            (one, instance.gpu_instance_id)
            for instance, handle in instances
            for one in self._gpu.query(function, of=handle) or ()
        ]

    def _utilization(self) -> dict[int, float] | None:
        """Return by pid the share of time in which its kernels ran, 0 to 1, ``None`` where unsupported."""
        if not self._has_utilization:
            return None
        nvml = self._gpu.nvml
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(self._gpu.handle, self._seen_until)
        except nvml.NVMLError as error:
            if error.value in NO_SAMPLES:
                return {}
            self._has_utilization = not self._gpu.lacks(error)
            return None
        percents: dict[int, list[int]] = {}
        for sample in samples:
            # Some drivers pad the list with invalid samples.
            if sample.timeStamp > self._seen_until and sample.smUtil <= 100:
                percents.setdefault(sample.pid, []).append(sample.smUtil)
        self._seen_until = max((sample.timeStamp for sample in samples), default=self._seen_until)
        return {pid: sum(of_one) / (100 * len(of_one)) for pid, of_one in percents.items()}


def _utilized(processes: list[GpuProcess], servers: set[int], utilization: Mapping[int, float]) -> Iterable[GpuProcess]:
    """Yield the processes with their utilization; the driver counts an MPS client's kernels as its server's."""
    clients = sum(one.mps for one in processes)
    of_clients = min(sum(utilization.get(pid, 0.0) for pid in servers), 1.0) if servers else None
    for one in processes:
        if one.mps:
            own = utilization.get(one.pid, of_clients if clients == 1 else None)
            yield replace(one, sm_utilization=own, mps_utilization=of_clients)
        else:
            yield replace(one, sm_utilization=utilization.get(one.pid, 0.0))


def _serves_mps(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n") == _MPS_SERVER
    except OSError:  # it has ended
        return False
