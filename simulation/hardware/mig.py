"""MIG partitioning of a simulated GPU."""

from __future__ import annotations

import pynvml

from hypergauge.gpu.models import Model, Profile
from hypergauge.simulation.hardware.ledger import GpuState, InstanceState, WorldState
from hypergauge.simulation.hardware.specification import simulated_uuid

__all__ = [
    "constant_of",
    "create_compute_instance",
    "create_instance",
    "destroy_compute_instance",
    "instances",
    "profile_by_constant",
    "profile_by_id",
    "profile_id",
]

# NVIDIA's MIG user guide, columns "GI ID" of `nvidia-smi mig -lgip`: by compute and memory slices of all.
_IDS_OF_SEVENTHS = {(1, 1): 19, (1, 2): 15, (2, 2): 14, (3, 4): 9, (4, 4): 5, (7, 8): 0}
_IDS_OF_QUARTERS = {(1, 1): 14, (2, 2): 5, (4, 4): 0}
_CONSTANTS = {
    (1, 1): pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE,
    (1, 2): pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2,
    (2, 2): pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE,
    (3, 4): pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE,
    (4, 4): pynvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE,
    (7, 8): pynvml.NVML_GPU_INSTANCE_PROFILE_7_SLICE,
}


def profile_id(model: Model, profile: Profile) -> int:
    """Return the driver's id of a profile, such as 19 for ``1g.5gb``."""
    ids = _IDS_OF_SEVENTHS if model.compute_slices == 7 else _IDS_OF_QUARTERS
    return ids[profile.compute, profile.memory]


def profile_by_id(model: Model, number: int) -> Profile | None:
    """Return the profile with the driver's id `number`."""
    return next((one for one in model.profiles if profile_id(model, one) == number), None)


def constant_of(profile: Profile) -> int:
    """Return the constant ``NVML_GPU_INSTANCE_PROFILE_*`` of a profile."""
    return int(_CONSTANTS[profile.compute, profile.memory])


def profile_by_constant(model: Model, constant: int) -> Profile | None:
    """Return this model's profile for a constant ``NVML_GPU_INSTANCE_PROFILE_*``."""
    return next((one for one in model.profiles if constant_of(one) == constant), None)


def instances(model: Model, gpu: GpuState) -> list[tuple[Profile, int]]:
    """Return the profile and the first memory slice of each instance of a GPU."""
    return [(found, one["start"]) for one in gpu["instances"] if (found := model.profile(one["profile"]))]


def create_instance(model: Model, gpu: GpuState, profile: Profile, start: int, serial: int) -> InstanceState:
    """Add a GPU instance, without a compute instance."""
    taken = {one["id"] for one in gpu["instances"]}
    # Ids number the nodes of a tree: the whole is 0, its halves 1 and 2, their halves 3 to 6, theirs 7 to 14.
    first = model.memory_slices // profile.memory - 1
    number = next(number for number in range(first, 2 * first + 1) if number not in taken)
    instance: InstanceState = {"serial": serial, "id": number, "profile": profile.name, "start": start, "uuid": None}
    gpu["instances"].append(instance)
    gpu["instances"].sort(key=lambda one: one["id"])
    return instance


def create_compute_instance(state: WorldState, gpu: GpuState, instance: InstanceState, serial: int) -> str:
    """Add a compute instance over all of a GPU instance; return its UUID, which is never reused."""
    seed = f"{gpu['uuid']}/{serial}"
    uuid = f"MIG-{simulated_uuid(seed)}"
    instance["uuid"] = uuid
    state["devices"][uuid] = {"busy": 0.0, "linked": 0.0, "activity": 0.0}
    return uuid


def destroy_compute_instance(state: WorldState, instance: InstanceState) -> None:
    """Remove a GPU instance's compute instance."""
    if instance["uuid"] is not None:
        del state["devices"][instance["uuid"]]
        instance["uuid"] = None
