"""MIG of simulated GPUs: instances created, used and removed through NVML's functions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from ctypes import byref, c_uint, pointer
from pathlib import Path
from typing import Any

import pynvml
import pytest

from hypergauge.core.system.processes import ProcessStat
from hypergauge.gpu import inventory
from hypergauge.simulation import SimulatedNvml, World
from hypergauge.simulation.hardware.load import Client
from hypergauge.simulation.hardware.physics import advance
from tests.support.exporters.gpu_work import BUSY, IDLE, eventually, on_gpu

ONE, DOUBLE, TWO, THREE, FOUR, SEVEN = 19, 15, 14, 9, 5, 0  # profile ids of an A100


@pytest.fixture
def nvml() -> SimulatedNvml:
    return opened("1xA100:mig")


@pytest.fixture
def gpu(nvml: SimulatedNvml) -> Any:
    return nvml.nvmlDeviceGetHandleByIndex(0)


def opened(specification: str, folder: Path | None = None, dcgm: bool = False) -> SimulatedNvml:
    nvml = SimulatedNvml(World.open(specification, folder), dcgm)
    nvml.nvmlInit()
    return nvml


def create(nvml: SimulatedNvml, gpu: Any, profile: int) -> Any:
    """Create a GPU instance on the first free memory slices."""
    placements, count = (pynvml.c_nvmlGpuInstancePlacement_t * 8)(), c_uint()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, placements, byref(count))
    for placement in placements[: count.value]:
        with suppress(pynvml.NVMLError_InsufficientResources):
            return nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, byref(placement))
    raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)


def make(nvml: SimulatedNvml, gpu: Any, profile: int) -> tuple[Any, Any]:
    """Create a GPU instance with its compute instance."""
    instance = create(nvml, gpu, profile)
    slices = {ONE: 0, DOUBLE: 0, TWO: 1, THREE: 2, FOUR: 3, SEVEN: 4}[profile]
    info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, slices, 0)
    return instance, nvml.nvmlGpuInstanceCreateComputeInstance(instance, info.id)


def mig_devices(nvml: SimulatedNvml, gpu: Any) -> list[Any]:
    found = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))
        except pynvml.NVMLError_NotFound:
            continue
    return found


def test_instances_are_made_and_removed(nvml: SimulatedNvml, gpu: Any) -> None:
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    instance = create(nvml, gpu, THREE)
    assert mig_devices(nvml, gpu) == []
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, pynvml.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE)
    (device,) = mig_devices(nvml, gpu)
    assert nvml.nvmlDeviceGetName(device) == "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
    assert nvml.nvmlDeviceGetGpuInstanceId(device) == nvml.nvmlGpuInstanceGetInfo(instance).id == 1
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(device))).startswith("MIG-")
    assert nvml.nvmlDeviceGetMemoryInfo(device).total == 20 * 2**30
    with pytest.raises(pynvml.NVMLError_InUse):
        nvml.nvmlGpuInstanceDestroy(instance)
    nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(instance)
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetUUID(device)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlGpuInstanceDestroy(instance)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlComputeInstanceDestroy(compute)


def test_a_recreated_instance_has_the_same_id_and_another_uuid(nvml: SimulatedNvml, gpu: Any) -> None:
    seen = []
    for _ in range(3):
        instance, compute = make(nvml, gpu, TWO)
        (device,) = mig_devices(nvml, gpu)
        seen.append((nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetUUID(device)))
        nvml.nvmlComputeInstanceDestroy(compute)
        nvml.nvmlGpuInstanceDestroy(instance)
    assert [number for number, _ in seen] == [3, 3, 3]
    assert len({uuid for _, uuid in seen}) == 3


@pytest.mark.parametrize(
    ("specification", "ids"),
    [
        ("A100:7x1g.5gb", [7, 8, 9, 10, 11, 12, 13]),
        ("A100:3x2g.10gb", [3, 4, 5]),
        ("A100:1x4g.20gb+1x3g.20gb", [1, 2]),
        ("A100:4x1g.10gb", [3, 4, 5, 6]),
        ("A100:1x7g.40gb", [0]),
        ("A100:1x3g.20gb+1x2g.10gb+2x1g.5gb", [1, 3, 7, 8]),
        ("A30:2x1g.6gb+1x2g.12gb", [1, 3, 4]),
        ("A30:1x4g.24gb", [0]),
    ],
)
def test_instances_have_the_drivers_ids(specification: str, ids: list[int]) -> None:
    (gpu,) = inventory(f"1x{specification}").gpus
    assert [instance.gpu_instance_id for instance in gpu.mig] == ids


@pytest.mark.parametrize(
    ("made", "left"),
    [
        ([], {ONE: 7, DOUBLE: 4, TWO: 3, THREE: 2, FOUR: 1, SEVEN: 1}),
        ([ONE], {ONE: 6, DOUBLE: 3, TWO: 2, THREE: 1, FOUR: 0, SEVEN: 0}),
        ([THREE], {ONE: 3, DOUBLE: 2, TWO: 1, THREE: 1, FOUR: 0, SEVEN: 0}),
        ([FOUR, THREE], dict.fromkeys((ONE, DOUBLE, TWO, THREE, FOUR, SEVEN), 0)),
        ([SEVEN], dict.fromkeys((ONE, DOUBLE, TWO, THREE, FOUR, SEVEN), 0)),
    ],
)
def test_a_gpu_has_room_for_only_so_many_instances(
    nvml: SimulatedNvml, gpu: Any, made: list[int], left: dict[int, int]
) -> None:
    for profile in made:
        make(nvml, gpu, profile)
    for profile, room in left.items():
        more = [create(nvml, gpu, profile) for _ in range(room)]
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            create(nvml, gpu, profile)
        for instance in more:
            nvml.nvmlGpuInstanceDestroy(instance)


def test_an_instance_lies_at_its_placement(nvml: SimulatedNvml, gpu: Any) -> None:
    placements, count = (pynvml.c_nvmlGpuInstancePlacement_t * 8)(), c_uint()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, THREE, placements, byref(count))
    assert [(one.start, one.size) for one in placements[: count.value]] == [(0, 4), (4, 4)]
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, ONE, None, byref(count))
    assert count.value == 7
    instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, THREE, byref(placements[1]))
    assert nvml.nvmlGpuInstanceGetInfo(instance).placement.start == 4
    with pytest.raises(pynvml.NVMLError_InsufficientResources):
        nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, THREE, pointer(placements[1]))
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, THREE, byref(pynvml.c_nvmlGpuInstancePlacement_t(2, 4)))


def test_instances_are_found_by_id(nvml: SimulatedNvml, gpu: Any) -> None:
    handles = [make(nvml, gpu, TWO)[0], create(nvml, gpu, TWO)]
    assert [nvml.nvmlGpuInstanceGetInfo(handle).id for handle in handles] == [3, 4]
    computes = (pynvml.c_nvmlComputeInstance_t * 7)()
    found = []
    for handle in handles:
        number = c_uint()
        nvml.nvmlGpuInstanceGetComputeInstances(handle, 1, computes, byref(number))
        found.append(number.value)
    assert found == [1, 0]
    assert nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(gpu, 4)).id == 4


@pytest.mark.parametrize(
    ("model", "profiles"),
    [
        ("A100", {0: (19, 1), 1: (14, 2), 2: (9, 3), 3: (5, 4), 4: (0, 7), 9: (15, 1)}),
        ("A30", {0: (14, 1), 1: (5, 2), 3: (0, 4)}),
        ("T4", {}),
    ],
)
def test_profiles_have_the_drivers_ids(model: str, profiles: dict[int, tuple[int, int]]) -> None:
    nvml = opened(f"1x{model}")
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    found = {}
    for constant in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, constant)
        except pynvml.NVMLError_NotSupported:
            continue
        found[constant] = (info.id, info.sliceCount)
    assert found == profiles


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda nvml, gpu: create(nvml, gpu, 1), pynvml.NVMLError_InvalidArgument),
        (lambda nvml, gpu: nvml.nvmlDeviceGetGpuInstanceById(gpu, 1), pynvml.NVMLError_NotFound),
        (lambda nvml, gpu: nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0), pynvml.NVMLError_NotFound),
        (lambda nvml, gpu: nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 7), pynvml.NVMLError_InvalidArgument),
        (lambda nvml, gpu: nvml.nvmlDeviceGetGpuInstanceId(gpu), pynvml.NVMLError_NotSupported),
        (lambda nvml, gpu: nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 99), pynvml.NVMLError_InvalidArgument),
        (lambda nvml, gpu: nvml.nvmlGpuInstanceDestroy(gpu), pynvml.NVMLError_InvalidArgument),
        (
            lambda nvml, gpu: nvml.nvmlGpmMigSampleGet(gpu, 1, nvml.nvmlGpmSampleAlloc()),
            pynvml.NVMLError_InvalidArgument,
        ),
        (lambda nvml, gpu: nvml.nvmlDeviceGetProcessUtilization(gpu, 0), pynvml.NVMLError_NotSupported),
    ],
)
def test_invalid_calls_raise_nvmls_errors(
    nvml: SimulatedNvml, gpu: Any, call: Callable[[SimulatedNvml, Any], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        call(nvml, gpu)


def test_processes_of_a_home_see_each_others_instances(tmp_path: Path) -> None:
    specification = "2xA100:mig"
    one = opened(specification, tmp_path / "simulated")
    make(one, one.nvmlDeviceGetHandleByIndex(1), ONE)
    found = inventory(specification, tmp_path)
    assert [[instance.profile for instance in gpu.mig] for gpu in found.gpus] == [[], ["1g.5gb"]]


def test_a_used_instance_cannot_be_removed(nvml: SimulatedNvml, gpu: Any) -> None:
    instance, compute = make(nvml, gpu, ONE)
    (device,) = mig_devices(nvml, gpu)
    with on_gpu(nvml.nvmlDeviceGetUUID(device), IDLE) as process:
        (found,) = eventually(
            lambda: nvml.nvmlDeviceGetComputeRunningProcesses(gpu),
            lambda seen: any(one.usedGpuMemory > 2**20 for one in seen),  # not yet right after its start
        )
        assert (found.pid, found.gpuInstanceId, found.computeInstanceId) == (process.pid, 7, 0)
        assert [one.pid for one in nvml.nvmlDeviceGetComputeRunningProcesses(device)] == [process.pid]
        with pytest.raises(pynvml.NVMLError_InUse):
            nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(instance)


def test_an_instance_can_be_removed_while_its_process_uses_another_device() -> None:
    nvml = opened("1xA100:mig,1xH100")
    gpu, whole = (nvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))
    instance, compute = make(nvml, gpu, ONE)
    (device,) = mig_devices(nvml, gpu)
    with on_gpu(f"{nvml.nvmlDeviceGetUUID(device)},{nvml.nvmlDeviceGetUUID(whole)}", BUSY):
        eventually(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(gpu))
    nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(instance)
    before = nvml.nvmlDeviceGetTotalEnergyConsumption(whole)
    eventually(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(whole), lambda energy: energy > before)


def test_an_instance_is_busy_by_itself_and_the_whole_gpu_by_its_share() -> None:
    nvml = opened("1xA100:7x1g.5gb", dcgm=True)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    device = mig_devices(nvml, gpu)[4]
    number = nvml.nvmlDeviceGetGpuInstanceId(device)
    samples = {gi: [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()] for gi in (number, 7)}
    whole = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]

    def sample(position: int) -> None:
        nvml.nvmlGpmSampleGet(gpu, whole[position])
        for gi, pair in samples.items():
            nvml.nvmlGpmMigSampleGet(gpu, gi, pair[position])

    def busy(pair: list[Any]) -> float:
        query = pynvml.c_nvmlGpmMetricsGet_t()
        query.version, query.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 2
        query.sample1, query.sample2 = pair
        query.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
        query.metrics[1].metricId = pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC
        nvml.nvmlGpmMetricsGet(query)
        assert (query.metrics[1].nvmlReturn == pynvml.NVML_SUCCESS) is (pair is whole)
        return float(query.metrics[0].value)

    sample(0)
    with on_gpu(nvml.nvmlDeviceGetUUID(device), BUSY):
        assert eventually(lambda: nvml.nvmlDeviceGetPowerUsage(gpu), lambda power: power > 52_000) < 105_000
        sample(1)
    assert 0 < busy(samples[number]) <= 100
    assert busy(samples[7]) == 0
    assert busy(whole) == pytest.approx(busy(samples[number]) / 7, rel=0.2)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        busy([samples[number][0], samples[7][1]])


def client(pid: int, seconds: float, *devices: str, cap: float = 1.0) -> Client:
    return Client(ProcessStat(pid, 1, 1.0, False, seconds, 0.0, 1, 10**9), devices, cap < 1, cap)


def test_processes_on_one_device_share_its_time() -> None:
    world = World.open("1xA100,1xA100:1x3g.20gb")
    whole, instance = world.gpus[0].uuid, str(world.state()["gpus"][1]["instances"][0]["uuid"])
    models = [gpu.model for gpu in world.gpus]
    with world.change() as state:
        for key, process in (("1@1.0", whole), ("2@1.0", whole), ("3@1.0", instance), ("4@1.0", world.gpus[1].uuid)):
            advance(state, models, {key: client(int(key[0]), 0.0, process)}, state["at"] + 1)
        begin = state["at"]
        state["processes"].clear()
        first = {
            "1@1.0": client(1, 5.0, whole),
            "2@1.0": client(2, 5.0, whole, cap=0.5),
            "3@1.0": client(3, 5.0, instance),
            "4@1.0": client(4, 5.0, world.gpus[1].uuid),  # in MIG mode only instances can be used
        }
        advance(state, models, first, begin + 1)
        energies = [gpu["energy"] for gpu in state["gpus"]]
        later = {
            "1@1.0": client(1, 25.0, whole),  # 2 cores
            "2@1.0": client(2, 15.0, whole, cap=0.5),  # 1 core
            "3@1.0": client(3, 9.0, instance),  # 0.4 cores
            "4@1.0": client(4, 9.0, world.gpus[1].uuid),
        }
        advance(state, models, later, begin + 11)
        assert set(state["processes"]) == {"1@1.0", "2@1.0", "3@1.0"}
        assert state["processes"]["1@1.0"]["busy"][whole] == pytest.approx(10 * 2 / 3)
        assert state["processes"]["2@1.0"]["busy"][whole] == pytest.approx(10 * 1 / 3)
        assert state["devices"][whole]["activity"] == 1
        assert state["devices"][instance]["activity"] == pytest.approx(0.4)
        assert state["devices"][world.gpus[1].uuid]["activity"] == pytest.approx(0.4 * 3 / 7)
        powers = [52 + 348 * 0.9, 52 + 348 * 0.9 * 0.4 * 3 / 7]
        assert [gpu["power"] for gpu in state["gpus"]] == pytest.approx(powers)
        used = [gpu["energy"] - before for gpu, before in zip(state["gpus"], energies, strict=True)]
        assert used == pytest.approx([10 * power for power in powers])
        assert state["gpus"][0]["temperature"] > state["gpus"][1]["temperature"]
        state["gpus"][0]["lost"] = True
        before = dict(state["gpus"][0])
        advance(state, models, {"1@1.0": client(1, 100.0, whole)}, begin + 21)
        assert before == state["gpus"][0]
        assert state["devices"][whole]["activity"] == 0
