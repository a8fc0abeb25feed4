"""Simulated GPUs through NVML's functions, shared by all processes of a home."""

from __future__ import annotations

import ctypes
import inspect
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from hypergauge.gpu import inventory, load
from hypergauge.simulation import SimulatedNvml, World
from tests.support.exporters.gpu_work import IDLE, activity, eventually, gpm, on_gpu, opened

GIB = 2**30


def test_functions_have_the_signatures_of_pynvml() -> None:
    names = [name for name in dir(SimulatedNvml) if name.startswith("nvml")]
    assert len(names) > 50
    for name in names:
        ours, theirs = (
            [(one.name, one.default) for one in inspect.signature(function).parameters.values() if one.name != "self"]
            for function in (getattr(SimulatedNvml, name), getattr(pynvml, name))
        )
        assert ours == theirs, name


def test_constants_structs_and_errors_are_pynvmls() -> None:
    nvml = opened("1xT4")
    assert nvml.SIMULATED
    assert nvml.NVMLError_GpuIsLost is pynvml.NVMLError_GpuIsLost
    assert nvml.NVML_CLOCK_SM == pynvml.NVML_CLOCK_SM
    assert nvml.c_nvmlGpmMetricsGet_t is pynvml.c_nvmlGpmMetricsGet_t
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        nvml.nvmlDeviceGetBrand(nvml.nvmlDeviceGetHandleByIndex(0))
    with pytest.raises(AttributeError):
        _ = nvml.nothing_of_the_kind


def test_functions_fail_before_init_and_after_shutdown() -> None:
    nvml = load("1xH100")
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        nvml.nvmlDeviceGetCount()
    nvml.nvmlInit()
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetIndex(handle) == 0
    nvml.nvmlShutdown()
    for ended in (nvml.nvmlDeviceGetCount, nvml.nvmlShutdown, lambda: nvml.nvmlDeviceGetPowerUsage(handle)):
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            ended()


def test_handles_refer_to_gpus() -> None:
    nvml = opened("2xA100,1xT4")
    assert nvml.nvmlDeviceGetCount() == 3
    for index in range(3):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = nvml.nvmlDeviceGetUUID(handle)
        for same in (nvml.nvmlDeviceGetHandleByUUID(uuid), nvml.nvmlDeviceGetHandleByUUID(uuid.encode())):
            assert nvml.nvmlDeviceGetIndex(same) == nvml.nvmlDeviceGetMinorNumber(same) == index
    assert len({nvml.nvmlDeviceGetPciInfo(nvml.nvmlDeviceGetHandleByIndex(index)).busId for index in range(3)}) == 3
    assert nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(2)) == "Tesla T4"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda nvml: nvml.nvmlDeviceGetHandleByIndex(1), pynvml.NVMLError_InvalidArgument),
        (lambda nvml: nvml.nvmlDeviceGetHandleByUUID("GPU-0"), pynvml.NVMLError_NotFound),
        (lambda nvml: nvml.nvmlDeviceGetUUID(pynvml.c_nvmlDevice_t()), pynvml.NVMLError_InvalidArgument),
        (lambda nvml: nvml.nvmlDeviceGetPowerUsage(nvml.nvmlGpmSampleAlloc()), pynvml.NVMLError_InvalidArgument),
        (
            lambda nvml: nvml.nvmlDeviceGetClockInfo(nvml.nvmlDeviceGetHandleByIndex(0), 9),
            pynvml.NVMLError_InvalidArgument,
        ),
    ],
)
def test_invalid_handles_and_uuids_are_refused(call: Callable[[SimulatedNvml], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(opened("1xH100"))


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        ("A100", {"nvmlDeviceGetFanSpeed"}),
        ("A100:mig", {"nvmlDeviceGetFanSpeed", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetEncoderUtilization"}),
        ("T4", {"nvmlDeviceGetFanSpeed", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetMigMode"}),
        ("RTX4090", {"nvmlDeviceGetRemappedRows", "nvmlDeviceGetMigMode", "nvmlDeviceGetTotalEccErrors"}),
    ],
)
def test_a_gpu_has_the_metrics_of_its_model(model: str, missing: set[str]) -> None:
    nvml = opened(f"1x{model}")
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    arguments = {
        "nvmlDeviceGetTotalEccErrors": (0, 0),
        "nvmlDeviceGetTemperature": (0,),
        "nvmlDeviceGetClockInfo": (1,),
    }
    lacked = set()
    for name in (
        "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetTemperature", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetPerformanceState",
        "nvmlDeviceGetFanSpeed", "nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetRemappedRows", "nvmlDeviceGetMigMode", "nvmlDeviceGetComputeRunningProcesses",
    ):  # fmt: skip
        try:
            getattr(nvml, name)(handle, *arguments.get(name, ()))
        except pynvml.NVMLError_NotSupported:
            lacked.add(name)
    assert lacked == missing


def test_an_idle_gpu_draws_idle_power() -> None:
    nvml = opened("1xA100")
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert eventually(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
    assert nvml.nvmlDeviceGetPowerUsage(handle) == 52_000
    assert nvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 400_000
    assert activity(nvml, handle) == 0
    assert nvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) == 210
    assert nvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == pynvml.nvmlClocksEventReasonGpuIdle
    assert nvml.nvmlDeviceGetComputeRunningProcesses(handle) == []
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetProcessUtilization(handle, 0)


def test_processes_of_a_home_agree_and_counters_never_fall(tmp_path: Path) -> None:
    sessions = [opened("1xH100", tmp_path) for _ in range(2)]
    handles = [nvml.nvmlDeviceGetHandleByIndex(0) for nvml in sessions]
    seen = [0]
    with on_gpu(sessions[0].nvmlDeviceGetUUID(handles[0])):
        while seen[-1] < 50_000:
            for nvml, handle in zip(sessions, handles, strict=True):
                seen.append(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
            assert seen == sorted(seen)
    script = f"""from pathlib import Path; from hypergauge.simulation import World
print(World.open("1xH100", Path({str(tmp_path / "simulated")!r})).now()["gpus"][0]["energy"])"""
    there = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert float(there.stdout) * 1000 >= seen[-1]


def test_a_lost_gpu_affects_no_other(tmp_path: Path) -> None:
    nvml = opened("2xA100", tmp_path)
    lost, left = (nvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
    World.open("2xA100", tmp_path / "simulated").lose(0)
    assert nvml.nvmlDeviceGetCount() == 2
    for call in (
        nvml.nvmlDeviceGetUUID,
        nvml.nvmlDeviceGetPowerUsage,
        nvml.nvmlDeviceGetMemoryInfo,
        nvml.nvmlDeviceGetComputeRunningProcesses,
        nvml.nvmlDeviceGetMigMode,
        lambda _: nvml.nvmlDeviceGetHandleByIndex(0),
    ):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            call(lost)
    assert nvml.nvmlDeviceGetPowerUsage(left) == 52_000
    found = inventory("2xA100", tmp_path)
    assert ([gpu.index for gpu in found.gpus], found.reason) == ([1], "GPU 0: GPU is lost")
    World.open("2xA100", tmp_path / "simulated").restore(0)
    assert nvml.nvmlDeviceGetPowerUsage(lost) == 52_000


def test_a_restarted_driver_must_be_opened_again(tmp_path: Path) -> None:
    nvml = opened("1xA100", tmp_path)
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    before = eventually(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle), lambda energy: energy > 10_000)
    World.open("1xA100", tmp_path / "simulated").reload_driver()
    for call in (nvml.nvmlDeviceGetCount, lambda: nvml.nvmlDeviceGetPowerUsage(handle)):
        with pytest.raises(pynvml.NVMLError_Unknown):
            call()
    nvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetPowerUsage(handle)
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(nvml.nvmlDeviceGetHandleByIndex(0)) < before


def test_another_specification_replaces_the_world(tmp_path: Path) -> None:
    first = opened("2xA100", tmp_path)
    assert opened("2xA100 ", tmp_path).nvmlDeviceGetCount() == first.nvmlDeviceGetCount() == 2
    assert opened("1xT4", tmp_path).nvmlDeviceGetCount() == 1
    with pytest.raises(pynvml.NVMLError_Unknown):
        first.nvmlDeviceGetCount()
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        first.nvmlInit()


@pytest.mark.parametrize("left", [b"", b'{"specification": "', b"[]", b"\xff"])
def test_an_unreadable_ledger_is_replaced(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "simulated").mkdir()
    (tmp_path / "simulated" / "world.json").write_bytes(left)
    assert opened("2xA100", tmp_path).nvmlDeviceGetCount() == 2


def test_a_world_is_in_memory_until_its_home_is_deleted(tmp_path: Path) -> None:
    def energy(home: str) -> int:
        nvml = opened("1xH100", tmp_path / home)
        return int(nvml.nvmlDeviceGetTotalEnergyConsumption(nvml.nvmlDeviceGetHandleByIndex(0)))

    energy("one")
    with World.open("1xH100", tmp_path / "one" / "simulated").change() as state:
        state["gpus"][0]["energy"] += 1e9  # longer than any test
    before = energy("one")
    assert before > 1e9
    file = tmp_path / "one" / "simulated" / "world.json"
    memory = file.resolve().parent
    assert memory.parent == Path("/dev/shm")
    assert memory.stat().st_mode & 0o077 == 0
    assert energy("one") >= before

    shutil.rmtree(memory)  # the host was rebooted
    assert energy("one") < before
    memory = file.resolve().parent

    shutil.rmtree(tmp_path / "one")
    energy("two")
    assert not memory.exists()


def test_each_waiting_event_set_gets_each_xid_error_once(tmp_path: Path) -> None:
    nvml, world = opened("2xA100", tmp_path), World.open("2xA100", tmp_path / "simulated")
    world.xid(1, 13)
    events = nvml.nvmlEventSetCreate()
    handle = nvml.nvmlDeviceGetHandleByIndex(1)
    nvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    with pytest.raises(pynvml.NVMLError_Timeout):
        nvml.nvmlEventSetWait_v2(events, 20)
    for index, number in ((0, 31), (1, 48), (1, 79)):
        world.xid(index, number)
    for number in (48, 79):
        event = nvml.nvmlEventSetWait_v2(events, 1000)
        assert (event.eventType, event.eventData) == (pynvml.nvmlEventTypeXidCriticalError, number)
        assert nvml.nvmlDeviceGetIndex(event.device) == 1
    with pytest.raises(pynvml.NVMLError_Timeout):
        nvml.nvmlEventSetWait_v2(events, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypePState, events)
    nvml.nvmlEventSetFree(events)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlEventSetWait_v2(events, 0)


def test_clocks_can_be_throttled() -> None:
    world = World.open("1xA100")
    nvml = SimulatedNvml(world)
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    world.throttle(0, pynvml.nvmlClocksEventReasonHwThermalSlowdown)
    with on_gpu(nvml.nvmlDeviceGetUUID(handle), IDLE):
        eventually(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        assert nvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == pynvml.nvmlClocksEventReasonHwThermalSlowdown
        assert nvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) == 846


@pytest.mark.parametrize(
    ("model", "dcgm", "supported"),
    [
        ("H100", False, True),
        ("H200", False, True),
        ("A100", False, False),
        ("A100", True, True),
        ("RTX4090", True, False),
    ],
)
def test_hopper_has_gpm_and_dcgm_covers_all_data_center_gpus(model: str, dcgm: bool, supported: bool) -> None:
    nvml = opened(f"1x{model}", dcgm=dcgm)
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice) is supported
    sample = nvml.nvmlGpmSampleAlloc()
    if supported:
        assert nvml.nvmlGpmSampleGet(handle, sample) is sample
    else:
        with pytest.raises(pynvml.NVMLError_NotSupported):
            nvml.nvmlGpmSampleGet(handle, sample)
    nvml.nvmlGpmSampleFree(sample)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlGpmSampleFree(sample)


def test_gpm_has_a_return_code_for_each_metric() -> None:
    nvml = opened("1xH100")
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        gpm(nvml, *samples, 2)
    nvml.nvmlGpmSampleGet(handle, samples[0])
    begun = gpm(nvml, samples[0], samples[0], 2, 4711)
    assert [code for code, _ in begun.values()] == [pynvml.NVML_ERROR_NO_DATA, pynvml.NVML_ERROR_NOT_SUPPORTED]

    def later() -> dict[int, tuple[int, float]]:
        nvml.nvmlGpmSampleGet(handle, samples[1])
        return gpm(nvml, *samples, 2, 20, 60)

    assert set(eventually(later, lambda found: found[2][0] == pynvml.NVML_SUCCESS).values()) == {(0, 0.0)}


def test_memory_is_counted_both_ways() -> None:
    nvml = opened("1xA100-80GB")
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    first, second = nvml.nvmlDeviceGetMemoryInfo(handle), nvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert first.total == second.total == 80 * GIB
    assert first.used == second.used + second.reserved
    assert first.used + first.free == second.used + second.reserved + second.free == second.total
    assert ctypes.sizeof(second) == ctypes.sizeof(pynvml.c_nvmlMemory_v2_t)
