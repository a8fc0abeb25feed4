"""NVML functions about processes on a GPU."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import pynvml

from hypergauge.simulation.hardware.ledger import InstanceState, WorldState
from hypergauge.simulation.hardware.world import World
from hypergauge.simulation.nvml.devices import memory_of
from hypergauge.simulation.nvml.metrics import MEMORY_SHARE
from hypergauge.simulation.nvml.session import Session

__all__ = ["Contexts"]

_NONE = 0xFFFFFFFF  # no instance
_KEPT_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class _Sample:
    """Busy seconds of the processes on a GPU; `stamp` is in Unix microseconds, `at` as in the ledger."""

    stamp: int
    at: float
    busy: dict[str, float]


class Contexts(Session):
    """Functions about processes on GPUs and MIG instances."""

    def __init__(self, world: World, dcgm: bool = False) -> None:
        super().__init__(world, dcgm)
        self._samples: dict[int, deque[_Sample]] = {}  # by GPU, earlier samples of this session

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        return self._running(handle)

    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: Any) -> list[Any]:
        return self._running(handle, mps=True)

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any) -> list[Any]:
        self._device(self._state(), handle)
        return []

    def nvmlDeviceGetProcessUtilization(self, handle: Any, timeStamp: int) -> list[Any]:
        """Return one sample of each active process: its mean since `timeStamp`.

        MPS clients have none: the driver counts their kernels as their server's, which is not simulated. The driver
        returns one per second, of some five looks, and at most the newest hundred.
        """
        state = self._now()
        index, gpu, _, instance = self._device(state, handle)
        if gpu["mig"] or instance is not None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        now = _Sample(int(1e6 * state["time"]), state["at"], _busy(state, gpu["uuid"]))
        samples = self._samples.setdefault(index, deque(maxlen=_KEPT_SAMPLES))
        since = next((one for one in reversed(samples) if one.stamp <= timeStamp), None)
        if not samples or samples[-1].stamp != now.stamp:
            samples.append(now)
        found = []
        for key, busy in now.busy.items():
            process = state["processes"][key]
            if process["mps"]:
                continue
            if since is None:
                activity = process["activity"].get(gpu["uuid"], 0.0) if timeStamp < now.stamp else 0.0
            else:
                activity = (busy - since.busy.get(key, 0.0)) / (now.at - since.at) if now.at > since.at else 0.0
            if activity > 0:
                sample = pynvml.c_nvmlProcessUtilizationSample_t()
                sample.pid, sample.timeStamp = _pid(key), now.stamp
                sample.smUtil, sample.memUtil = round(100 * activity), round(100 * activity * MEMORY_SHARE)
                found.append(sample)
        if not found:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return found

    def _running(self, handle: Any, *, mps: bool = False) -> list[Any]:
        """Return the processes, or only the clients of MPS servers."""
        state = self._now()
        _, gpu, model, instance = self._device(state, handle)
        if instance is not None:
            instances: list[InstanceState | None] = [instance]
        elif gpu["mig"]:
            instances = [one for one in gpu["instances"] if one["uuid"] is not None]
        else:
            instances = [None]
        found = []
        for one in instances:
            uuid = gpu["uuid"] if one is None else str(one["uuid"])
            total, reserved = memory_of(model, one)
            for key, process in state["processes"].items():
                if process["ended"] is None and (process["mps"] or not mps) and uuid in process["busy"]:
                    entry = {
                        "pid": _pid(key),
                        "usedGpuMemory": min(process["resident"], total - reserved),
                        "gpuInstanceId": _NONE if one is None else one["id"],
                        "computeInstanceId": _NONE if one is None else 0,
                    }
                    found.append(pynvml.nvmlFriendlyObject(entry))
        return found


def _busy(state: WorldState, uuid: str) -> dict[str, float]:
    return {key: process["busy"][uuid] for key, process in state["processes"].items() if uuid in process["busy"]}


def _pid(key: str) -> int:
    return int(key.partition("@")[0])
