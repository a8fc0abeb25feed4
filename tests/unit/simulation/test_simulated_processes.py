"""Real processes that keep simulated GPUs busy."""

from __future__ import annotations

from functools import partial
from typing import Any

import pynvml
import pytest

from hypergauge.simulation import SimulatedNvml, World
from tests.support.exporters.gpu_work import IDLE, activity, eventually, gpm, on_gpu, opened, pids


def test_a_process_keeps_its_gpu_busy_and_the_others_idle() -> None:
    nvml = opened("2xH100")
    first, second = (nvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
    samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
    nvml.nvmlGpmSampleGet(second, samples[0])
    before = nvml.nvmlDeviceGetMemoryInfo(second).used
    with on_gpu(nvml.nvmlDeviceGetUUID(second)) as process:
        eventually(lambda: activity(nvml, second))
        assert eventually(lambda: nvml.nvmlDeviceGetPowerUsage(second), lambda power: power > 70_000) < 700_000
        (found,) = nvml.nvmlDeviceGetComputeRunningProcesses(second)
        assert (found.pid, found.gpuInstanceId) == (process.pid, 0xFFFFFFFF)
        assert nvml.nvmlDeviceGetMemoryInfo(second).used - before >= 2**20
        assert nvml.nvmlDeviceGetClockInfo(second, pynvml.NVML_CLOCK_SM) == 1980
        assert nvml.nvmlDeviceGetCurrentClocksEventReasons(second) == 0
        (used,) = eventually(lambda: utilization(nvml, second))
        assert used.pid == process.pid
        assert 0 <= used.smUtil <= 100
        assert activity(nvml, first) == 0
        assert nvml.nvmlDeviceGetComputeRunningProcesses(first) == []
    eventually(lambda: nvml.nvmlDeviceGetPowerUsage(second), lambda power: power == 70_000)
    assert nvml.nvmlDeviceGetComputeRunningProcesses(second) == []
    assert nvml.nvmlDeviceGetMemoryInfo(second).used == before
    nvml.nvmlGpmSampleGet(second, samples[1])
    found = gpm(nvml, *samples, pynvml.NVML_GPM_METRIC_SM_UTIL, pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL)
    assert 0 < found[pynvml.NVML_GPM_METRIC_SM_UTIL][1] <= 100
    assert found[pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL][1] == pytest.approx(0.6 * found[2][1])


def utilization(nvml: SimulatedNvml, handle: Any, since: int = 0) -> list[Any]:
    try:
        return nvml.nvmlDeviceGetProcessUtilization(handle, since)
    except pynvml.NVMLError_NotFound:
        return []


@pytest.mark.parametrize(
    ("devices", "variables"),
    [
        ("", {}),
        ("GPU-00000000-0000-0000-0000-000000000000", {}),
        ("0", {}),
        ("{}", {"BENCH_RUN_ID": ""}),
    ],
)
def test_only_processes_of_runs_with_devices_use_gpus(devices: str, variables: dict[str, str]) -> None:
    nvml = opened("1xH100")
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    uuid = nvml.nvmlDeviceGetUUID(handle)
    with on_gpu(devices.format(uuid), IDLE, **variables), on_gpu(uuid, IDLE) as other:
        seen = eventually(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        assert pids(seen) == [other.pid]


def test_a_process_can_be_on_several_gpus_and_uses_their_links() -> None:
    nvml = opened("2xH100")
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
    with on_gpu(",".join(nvml.nvmlDeviceGetUUID(handle) for handle in handles)) as process:
        for handle in handles:
            assert eventually(partial(activity, nvml, handle))
            assert pids(nvml.nvmlDeviceGetComputeRunningProcesses(handle)) == [process.pid]
        sent, absent = nvml.nvmlDeviceGetFieldValues(
            handles[0], [(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 0xFFFFFFFF), 1]
        )
        assert (sent.nvmlReturn, absent.nvmlReturn) == (pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_SUPPORTED)
        assert sent.value.ullVal > 0


def test_mps_caps_its_clients_and_lists_them_as_such() -> None:
    nvml = opened("1xA100")
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    with on_gpu(nvml.nvmlDeviceGetUUID(handle), CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="5") as process:
        assert eventually(lambda: activity(nvml, handle)) <= 5
        assert pids(nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)) == [process.pid]
        assert pids(nvml.nvmlDeviceGetComputeRunningProcesses(handle)) == [process.pid]
        with pytest.raises(pynvml.NVMLError_NotFound):
            nvml.nvmlDeviceGetProcessUtilization(handle, 0)


def test_energy_is_the_integral_of_power() -> None:
    world = World.open("1xA100")
    with on_gpu(world.gpus[0].uuid):
        eventually(lambda: world.now()["gpus"][0]["power"], lambda power: power > 52)
        energies: list[float] = []
        last = world.state()
        while len(energies) < 5:
            now = eventually(world.now, lambda state: state["at"] > last["at"])  # noqa: B023
            (before,), (after,) = last["gpus"], now["gpus"]
            energies.append(after["energy"] - before["energy"])
            assert energies[-1] == pytest.approx(after["power"] * (now["at"] - last["at"]), rel=1e-9)
            last = now
    assert sum(energies) > 0


def test_work_of_an_ended_process_stays_counted() -> None:
    world = World.open("1xA100")
    (gpu,) = world.gpus
    with on_gpu(gpu.uuid):
        busy = eventually(lambda: world.now()["devices"][gpu.uuid]["busy"])
    state = eventually(world.now, lambda state: all(one["ended"] for one in state["processes"].values()))
    assert state["devices"][gpu.uuid]["busy"] >= busy
    assert sum(one["busy"][gpu.uuid] for one in state["processes"].values()) == pytest.approx(
        state["devices"][gpu.uuid]["busy"]
    )
