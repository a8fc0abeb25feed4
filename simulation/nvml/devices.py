"""NVML functions about devices."""

from __future__ import annotations

from typing import Any

import pynvml

from hypergauge.gpu.models import GIB, Model
from hypergauge.simulation.hardware.ledger import GpuState, InstanceState
from hypergauge.simulation.nvml.session import MigDevice, PhysicalGpu, Session

__all__ = ["Devices", "memory_of"]

_RESERVED = GIB // 2


class Devices(Session):
    """Functions about GPUs and MIG devices: handles, names and memory."""

    def nvmlDeviceGetCount(self) -> int:
        return len(self._state()["gpus"])

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        state = self._state()
        if not 0 <= index < len(state["gpus"]):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        self._gpu_at(state, index)
        return self._handle(PhysicalGpu(index), pynvml.c_nvmlDevice_t)

    def nvmlDeviceGetHandleByUUID(self, uuid: str | bytes) -> Any:
        uuid = uuid.decode() if isinstance(uuid, bytes) else uuid
        state = self._state()
        for index, gpu in enumerate(state["gpus"]):
            if uuid == gpu["uuid"]:
                return self.nvmlDeviceGetHandleByIndex(index)
            if uuid in (instance["uuid"] for instance in gpu["instances"]):
                self._gpu_at(state, index)
                return self._handle(MigDevice(index, uuid), pynvml.c_nvmlDevice_t)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        _, gpu, _, instance = self._device(self._state(), handle)
        return gpu["uuid"] if instance is None else str(instance["uuid"])

    def nvmlDeviceGetName(self, handle: Any) -> str:
        _, _, model, instance = self._device(self._state(), handle)
        return model.name if instance is None else f"{model.name} MIG {instance['profile']}"

    def nvmlDeviceGetIndex(self, handle: Any) -> int:
        index, gpu, _, instance = self._device(self._state(), handle)
        return index if instance is None else _migs(gpu).index(instance)

    def nvmlDeviceGetMinorNumber(self, handle: Any) -> int:
        return self._parent(self._state(), handle)[0]

    def nvmlDeviceGetPciInfo(self, handle: Any) -> Any:
        index = self._parent(self._state(), handle)[0]
        domain, bus = divmod(index, 31)
        info = pynvml.nvmlPciInfo_t()
        info.domain, info.bus, info.device = domain, bus * 8 + 7, 0
        info.busId = f"{info.domain:08X}:{info.bus:02X}:00.0"
        info.busIdLegacy = f"{info.domain:04X}:{info.bus:02X}:00.0"
        return info

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> Any:
        state = self._now()
        _, gpu, model, instance = self._device(state, handle)
        total, reserved = memory_of(model, instance)
        uuids = _uuids(gpu) if instance is None else [instance["uuid"]]
        living = [process for process in state["processes"].values() if process["ended"] is None]
        resident = sum(process["resident"] for process in living for uuid in uuids if uuid in process["busy"])
        used = min(resident, total - reserved)
        info = pynvml.c_nvmlMemory_v2_t() if version else pynvml.c_nvmlMemory_t()
        info.total, info.free, info.used = total, total - reserved - used, used
        if version:
            info.version, info.reserved = version, reserved
        else:
            info.used += reserved
        return info

    def nvmlDeviceGetMigMode(self, device: Any) -> list[int]:
        _, gpu, model = self._parent(self._state(), device)
        if not model.profiles:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(gpu["mig"]), int(gpu["mig"])]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Any) -> int:
        return self._parent(self._state(), device)[2].compute_slices

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, index: int) -> Any:
        number, gpu, model = self._partitioned(self._state(), device)
        if not 0 <= index < model.compute_slices:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        migs = _migs(gpu)
        if index >= len(migs):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self._handle(MigDevice(number, str(migs[index]["uuid"])), pynvml.c_nvmlDevice_t)

    def nvmlDeviceGetGpuInstanceId(self, device: Any) -> int:
        return self._mig(device)["id"]

    def _mig(self, device: Any) -> InstanceState:
        instance = self._device(self._state(), device)[3]
        if instance is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return instance


def memory_of(model: Model, instance: InstanceState | None) -> tuple[int, int]:
    """Return the device memory of a GPU or an instance in bytes, and the driver's reserved part of it."""
    profile = instance and model.profile(instance["profile"])
    if profile is None:
        return model.memory_gib * GIB, _RESERVED
    return (
        model.memory_gib * GIB * profile.memory // model.memory_slices,
        _RESERVED * profile.memory // model.memory_slices,
    )


def _migs(gpu: GpuState) -> list[InstanceState]:
    return [instance for instance in gpu["instances"] if instance["uuid"] is not None]


def _uuids(gpu: GpuState) -> list[str | None]:
    return [gpu["uuid"], *(instance["uuid"] for instance in gpu["instances"])]
