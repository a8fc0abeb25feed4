"""NVML functions about MIG partitioning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pynvml

from hypergauge.gpu.models import GIB, Model, Profile
from hypergauge.simulation import mig
from hypergauge.simulation.devices import memory_of
from hypergauge.simulation.ledger import InstanceState, WorldState
from hypergauge.simulation.session import Board, ComputeInstance, GpuInstance, Session, pointed
from hypergauge.simulation.world import next_serial

__all__ = ["Partition"]

# A compute instance here is all of its GPU instance, so the profiles of both have the same number of slices.
_COMPUTE = {
    1: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE,
    2: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE,
    3: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE,
    4: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE,
    7: pynvml.NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE,
}
_MULTIPROCESSORS = {"ampere": 14, "hopper": 16}  # in one slice


class Partition(Session):
    """MIG: GPU instances and their compute instances."""

    def nvmlDeviceSetMigMode(self, device: Any, mode: int) -> int:
        index, _, model = self._parent(self._state(), device)
        if not model.profiles:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if mode not in (pynvml.NVML_DEVICE_MIG_DISABLE, pynvml.NVML_DEVICE_MIG_ENABLE):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        with self._change() as state:
            gpu, _ = self._board(state, index)
            if gpu["instances"] or _is_used(state, gpu["uuid"]):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_IN_USE)
            gpu["mig"] = bool(mode)
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: Any, profile: int, version: int = 2) -> Any:
        _, _, model = self._parent(self._state(), device)
        if not 0 <= profile < pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        found = mig.profile_by_constant(model, profile)
        if found is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        info = _of_version(
            version, pynvml.c_nvmlGpuInstanceProfileInfo_t, pynvml.c_nvmlGpuInstanceProfileInfo_v2_t, found
        )
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

    def nvmlDeviceGetGpuInstanceRemainingCapacity(self, device: Any, profileId: int) -> int:
        _, gpu, model = self._partitioned(self._state(), device)
        return mig.remaining(model, gpu, _profile(model, profileId))

    def nvmlDeviceCreateGpuInstance(self, device: Any, profileId: int) -> Any:
        return self._create(device, profileId, None)

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, device: Any, profileId: int, placement: Any) -> Any:
        placement = pointed(placement)
        return self._create(device, profileId, getattr(placement, "contents", placement))

    def nvmlDeviceGetGpuInstances(self, device: Any, profileId: int, gpuInstancesRef: Any, countRef: Any) -> int:
        index, gpu, model = self._partitioned(self._state(), device)
        name = _profile(model, profileId).name
        found = [GpuInstance(index, one["serial"]) for one in gpu["instances"] if one["profile"] == name]
        handles = [self._handle(one, pynvml.c_nvmlGpuInstance_t) for one in found]
        return _fill(gpuInstancesRef, countRef, handles)

    def nvmlDeviceGetGpuInstanceById(self, device: Any, gpuInstanceId: int) -> Any:
        index, gpu, _ = self._partitioned(self._state(), device)
        for one in gpu["instances"]:
            if one["id"] == gpuInstanceId:
                return self._handle(GpuInstance(index, one["serial"]), pynvml.c_nvmlGpuInstance_t)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlGpuInstanceGetInfo(self, gpuInstance: Any) -> Any:
        index, model, instance, profile = self._instance(self._state(), gpuInstance)
        info = pynvml.c_nvmlGpuInstanceInfo_t()
        info.device = self._handle(Board(index), pynvml.c_nvmlDevice_t)
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
        version: int = 2,
    ) -> Any:
        _, model, _, whole = self._instance(self._state(), device)
        if (
            not 0 <= profile < pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT
            or engProfile != pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
        ):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if profile != _COMPUTE[whole.compute]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        info = _of_version(
            version, pynvml.c_nvmlComputeInstanceProfileInfo_t, pynvml.c_nvmlComputeInstanceProfileInfo_v2_t, whole
        )
        info.id, info.instanceCount = profile, 1
        info.multiprocessorCount = whole.compute * _MULTIPROCESSORS[model.architecture]
        info.sharedCopyEngineCount = whole.compute
        return info

    def nvmlGpuInstanceGetComputeInstanceRemainingCapacity(self, gpuInstance: Any, profileId: int) -> int:
        _, _, instance, profile = self._instance(self._state(), gpuInstance)
        _check_compute(profile, profileId)
        return int(instance["uuid"] is None)

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

    def nvmlGpuInstanceGetComputeInstanceById(self, gpuInstance: Any, computeInstanceId: int) -> Any:
        index, _, instance, _ = self._instance(self._state(), gpuInstance)
        if computeInstanceId != 0 or instance["uuid"] is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self._handle(ComputeInstance(index, instance["uuid"]), pynvml.c_nvmlComputeInstance_t)

    def nvmlComputeInstanceGetInfo(self, computeInstance: Any) -> Any:
        index, instance, profile = self._compute(self._state(), computeInstance)
        info = pynvml.c_nvmlComputeInstanceInfo_t()
        info.device = self._handle(Board(index), pynvml.c_nvmlDevice_t)
        info.gpuInstance = self._handle(GpuInstance(index, instance["serial"]), pynvml.c_nvmlGpuInstance_t)
        info.id, info.profileId = 0, _COMPUTE[profile.compute]
        info.placement.start, info.placement.size = 0, profile.compute
        return info

    def nvmlComputeInstanceGetInfo_v2(self, computeInstance: Any) -> Any:
        return self.nvmlComputeInstanceGetInfo(computeInstance)

    def nvmlComputeInstanceDestroy(self, computeInstance: Any) -> int:
        self._compute(self._state(), computeInstance)
        with self._change() as state:
            _, instance, _ = self._compute(state, computeInstance)
            if _is_used(state, str(instance["uuid"])):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_IN_USE)
            mig.destroy_compute_instance(state, instance)
        return int(pynvml.NVML_SUCCESS)

    def _create(self, device: Any, number: int, placement: Any) -> Any:
        index, _, _ = self._partitioned(self._state(), device)
        with self._change() as state:
            gpu, model = self._board(state, index)
            profile = _profile(model, number)
            free = mig.free_starts(model, gpu, profile)
            if placement is not None:
                if placement.start not in profile.starts or placement.size != profile.memory:
                    raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
                free = [start for start in free if start == placement.start]
            if not free:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
            serial = mig.create_instance(model, gpu, profile, free[0], next_serial(state))["serial"]
        return self._handle(GpuInstance(index, serial), pynvml.c_nvmlGpuInstance_t)

    def _instance(self, state: WorldState, handle: Any) -> tuple[int, Model, InstanceState, Profile]:
        target = self._target(handle)
        if isinstance(target, GpuInstance):
            gpu, model = self._board(state, target.index)
            for one in gpu["instances"]:
                if one["serial"] == target.serial:
                    return target.index, model, one, _named(model, one)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)

    def _compute(self, state: WorldState, handle: Any) -> tuple[int, InstanceState, Profile]:
        target = self._target(handle)
        if isinstance(target, ComputeInstance):
            gpu, model = self._board(state, target.index)
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


def _of_version(version: int, first: Any, second: Any, profile: Profile) -> Any:
    """Return the struct that describes a profile, with what is the same for GPU and compute instances."""
    if version not in (1, 2):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    info = first() if version == 1 else second()
    info.sliceCount = profile.compute
    if version == 2:
        info.name = f"MIG {profile.name}"
    return info


def _fill(reference: Any, count: Any, found: Sequence[Any]) -> int:
    """Write what was found to an array, if there is one, and how many they are, as NVML does."""
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
