"""NVML functions about MIG partitioning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pynvml

from hypergauge.gpu.models import GIB, Model, Profile, free_starts
from hypergauge.simulation.hardware import mig
from hypergauge.simulation.hardware.ledger import InstanceState, WorldState
from hypergauge.simulation.hardware.world import next_serial
from hypergauge.simulation.nvml.devices import memory_of
from hypergauge.simulation.nvml.session import ComputeInstance, GpuInstance, PhysicalGpu, Session, pointed

__all__ = ["Partition"]

# A simulated compute instance is all of its GPU instance, so the profiles of both have the same number of slices.
_COMPUTE = {
    1: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE,
    2: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE,
    3: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE,
    4: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE,
    7: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE,
}
_MULTIPROCESSORS = {"ampere": 14, "hopper": 16}  # in one slice


class Partition(Session):
    """Functions about GPU instances and their compute instances."""

    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: Any, profile: int, version: int = 2) -> Any:  # noqa: ARG002
        _, _, model = self._parent(self._state(), device)
        if not 0 <= profile < pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        found = mig.profile_by_constant(model, profile)
        if found is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        info = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t()
        info.sliceCount, info.name = found.compute, f"MIG {found.name}"
        info.id = mig.profile_id(model, found)
        info.instanceCount = len(found.starts)
        info.multiprocessorCount = found.compute * _MULTIPROCESSORS[model.architecture]
        info.copyEngineCount = found.compute
        shape: InstanceState = {"serial": 0, "id": 0, "profile": found.name, "start": 0, "uuid": None}
        total, reserved = memory_of(model, shape)
        info.memorySizeMB = (total - reserved) * 1024 // GIB
        return info

    def nvmlDeviceGetGpuInstancePossiblePlacements(
        self,
        device: Any,
        profileId: int,
        placementsRef: Any,
        countRef: Any,
    ) -> int:
        _, _, model = self._parent(self._state(), device)
        profile = _profile(model, profileId)
        placements = [pynvml.c_nvmlGpuInstancePlacement_t(start=start, size=profile.memory) for start in profile.starts]
        return _fill(placementsRef, countRef, placements)

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, device: Any, profileId: int, placement: Any) -> Any:
        index, _, _ = self._partitioned(self._state(), device)
        placement = pointed(placement)
        placement = getattr(placement, "contents", placement)
        with self._change() as state:
            gpu, model = self._gpu_at(state, index)
            profile = _profile(model, profileId)
            if placement.start not in profile.starts or placement.size != profile.memory:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            if placement.start not in free_starts(model.profiles, profile, mig.instances(model, gpu)):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
            serial = mig.create_instance(model, gpu, profile, placement.start, next_serial(state))["serial"]
        return self._handle(GpuInstance(index, serial), pynvml.c_nvmlGpuInstance_t)

    def nvmlDeviceGetGpuInstanceById(self, device: Any, gpuInstanceId: int) -> Any:
        index, gpu, _ = self._partitioned(self._state(), device)
        for one in gpu["instances"]:
            if one["id"] == gpuInstanceId:
                return self._handle(GpuInstance(index, one["serial"]), pynvml.c_nvmlGpuInstance_t)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlGpuInstanceGetInfo(self, gpuInstance: Any) -> Any:
        index, model, instance, profile = self._instance(self._state(), gpuInstance)
        info = pynvml.c_nvmlGpuInstanceInfo_t()
        info.device = self._handle(PhysicalGpu(index), pynvml.c_nvmlDevice_t)
        info.id, info.profileId = instance["id"], mig.profile_id(model, profile)
        info.placement.start, info.placement.size = instance["start"], profile.memory
        return info

    def nvmlGpuInstanceDestroy(self, gpuInstance: Any) -> int:
        index = self._instance(self._state(), gpuInstance)[0]
        with self._change() as state:
            instance = self._instance(state, gpuInstance)[2]
            if instance["uuid"] is not None:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_IN_USE)
            state["gpus"][index]["instances"].remove(instance)
        return int(pynvml.NVML_SUCCESS)

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self,
        device: Any,
        profile: int,
        engProfile: int,
        version: int = 2,  # noqa: ARG002
    ) -> Any:
        _, model, _, whole = self._instance(self._state(), device)
        if (
            not 0 <= profile < pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT
            or engProfile != pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
        ):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if profile != _COMPUTE[whole.compute]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        info = pynvml.c_nvmlComputeInstanceProfileInfo_v2_t()
        info.sliceCount, info.name = whole.compute, f"MIG {whole.name}"
        info.id, info.instanceCount = profile, 1
        info.multiprocessorCount = whole.compute * _MULTIPROCESSORS[model.architecture]
        info.sharedCopyEngineCount = whole.compute
        return info

    def nvmlGpuInstanceCreateComputeInstance(self, gpuInstance: Any, profileId: int) -> Any:
        index = self._instance(self._state(), gpuInstance)[0]
        with self._change() as state:
            _, _, instance, profile = self._instance(state, gpuInstance)
            _check_compute(profile, profileId)
            if instance["uuid"] is not None:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
            uuid = mig.create_compute_instance(state, state["gpus"][index], instance, next_serial(state))
        return self._handle(ComputeInstance(index, uuid), pynvml.c_nvmlComputeInstance_t)

    def nvmlGpuInstanceGetComputeInstances(
        self,
        gpuInstance: Any,
        profileId: int,
        computeInstancesRef: Any,
        countRef: Any,
    ) -> int:
        index, _, instance, profile = self._instance(self._state(), gpuInstance)
        _check_compute(profile, profileId)
        there = [] if instance["uuid"] is None else [ComputeInstance(index, instance["uuid"])]
        handles = [self._handle(one, pynvml.c_nvmlComputeInstance_t) for one in there]
        return _fill(computeInstancesRef, countRef, handles)

    def nvmlComputeInstanceDestroy(self, computeInstance: Any) -> int:
        self._compute(self._state(), computeInstance)
        with self._change() as state:
            _, instance, _ = self._compute(state, computeInstance)
            if _is_used(state, str(instance["uuid"])):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_IN_USE)
            mig.destroy_compute_instance(state, instance)
        return int(pynvml.NVML_SUCCESS)

    def _instance(self, state: WorldState, handle: Any) -> tuple[int, Model, InstanceState, Profile]:
        target = self._target(handle)
        if isinstance(target, GpuInstance):
            gpu, model = self._gpu_at(state, target.index)
            for one in gpu["instances"]:
                if one["serial"] == target.serial:
                    return target.index, model, one, _named(model, one)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)

    def _compute(self, state: WorldState, handle: Any) -> tuple[int, InstanceState, Profile]:
        target = self._target(handle)
        if isinstance(target, ComputeInstance):
            gpu, model = self._gpu_at(state, target.index)
            for one in gpu["instances"]:
                if one["uuid"] == target.uuid:
                    return target.index, one, _named(model, one)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def _profile(model: Model, number: int) -> Profile:
    if not model.profiles:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    profile = mig.profile_by_id(model, number)
    if profile is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return profile


def _named(model: Model, instance: InstanceState) -> Profile:
    return next(profile for profile in model.profiles if profile.name == instance["profile"])


def _check_compute(profile: Profile, number: int) -> None:
    if number not in _COMPUTE.values():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    if number != _COMPUTE[profile.compute]:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def _fill(reference: Any, count: Any, found: Sequence[Any]) -> int:
    """Write `found` to an array, if there is one, and its length to `count`, as NVML does."""
    array = pointed(reference)
    if array is not None:
        if hasattr(array, "_length_") and array._length_ < len(found):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        for number, one in enumerate(found):
            array[number] = one
    size = pointed(count)
    getattr(size, "contents", size).value = len(found)
    return int(pynvml.NVML_SUCCESS)


def _is_used(state: WorldState, uuid: str) -> bool:
    return any(one["ended"] is None and uuid in one["busy"] for one in state["processes"].values())
