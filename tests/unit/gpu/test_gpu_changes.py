"""Changes between and during reads: lost GPUs, new MIG instances, restarts of the driver."""

from __future__ import annotations

from collections.abc import Callable

import pynvml
import pytest

from hypergauge.gpu.sampling.reader import GpuReader
from hypergauge.gpu.sampling.sample import Sample
from tests.support.fakes.nvml_double import NvmlDouble, Process, Slot

LOST = [pynvml.NVMLError_GpuIsLost, pynvml.NVMLError_Unknown, pynvml.NVMLError_ResetRequired]
T4, H100, A100 = (
    "GPU-d37e67a5-91dd-3774-a5cb-99096249601a",
    "GPU-ee7954ec-da95-fd7a-ddfd-c6b32cc2f8aa",
    "GPU-513536b6-7d19-9063-b049-1e69664bb298",
)


def uuids(sample: Sample) -> list[str]:
    return [gpu.gpu.uuid for gpu in sample.gpus]


def raising(error: type[pynvml.NVMLError]) -> Callable[[], None]:
    def refuse() -> None:
        raise error()

    return refuse


@pytest.mark.parametrize("error", LOST)
def test_a_lost_gpu_affects_no_other_and_returns(error: type[pynvml.NVMLError]) -> None:
    nvml = NvmlDouble("h100", "t4", "a100-mig")
    nvml.cards[1].xids = [79]
    reader = GpuReader(nvml, nvml.clock)
    assert uuids(reader.read()) == [H100, T4, A100]
    nvml.cards[1].lost = error
    for _ in range(3):
        nvml.now += 1
        sample = reader.read()
        assert uuids(sample) == [H100, A100]
        assert sample.lost == {T4: str(error())}
    nvml.cards[1].lost = None
    nvml.now += 1
    sample = reader.read()
    assert uuids(sample) == [H100, T4, A100]
    assert sample.lost == {}
    assert (sample.gpus[1].xids, sample.gpus[1].last_xid) == ({79: 1}, 79)
    assert len(nvml.event_sets) == 3
    assert nvml.session == 1


def test_a_gpu_lost_during_a_read() -> None:
    nvml = NvmlDouble("h100", "t4")
    reader = GpuReader(nvml, nvml.clock)
    reader.read()

    def lose() -> None:
        nvml.cards[0].lost = pynvml.NVMLError_GpuIsLost

    nvml.before("nvmlDeviceGetUtilizationRates", lose)
    nvml.now += 1
    sample = reader.read()
    assert uuids(sample) == [T4]
    assert sample.lost == {H100: "GPU is lost"}


def test_nvml_is_reopened_within_a_minute_for_a_lost_gpu() -> None:
    nvml = NvmlDouble("h100", "t4")
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    nvml.cards[1].lost = pynvml.NVMLError_GpuIsLost
    reader.read()
    nvml.before("nvmlInit", lambda: setattr(nvml.cards[1], "lost", None))
    for _ in range(61):
        assert reader.read().lost
        nvml.now += 1
    assert uuids(reader.read()) == [H100, T4]
    assert nvml.session == 2


def test_a_gpu_lost_at_the_start_is_found_later() -> None:
    nvml = NvmlDouble("h100", "t4")
    nvml.cards[0].lost = pynvml.NVMLError_GpuIsLost
    reader = GpuReader(nvml, nvml.clock)
    assert reader.problem() is None
    sample = reader.read()
    assert (uuids(sample), sample.lost) == ([T4], {})  # its UUID is unknown yet
    nvml.cards[0].lost = None
    assert uuids(reader.read()) == [H100, T4]


def test_a_gpu_is_known_by_its_uuid_when_the_indices_move() -> None:
    nvml = NvmlDouble("h100", "t4")
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    nvml.restart_driver()
    del nvml.cards[0]
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        reader.read()
    sample = reader.read()
    assert [(gpu.gpu.index, gpu.gpu.uuid) for gpu in sample.gpus] == [(0, T4)]
    assert sample.lost == {H100: "it was not found"}


def test_a_metric_with_an_unknown_error_is_left_out() -> None:
    nvml = NvmlDouble("t4")
    reader = GpuReader(nvml, nvml.clock)
    for call in range(1, 4):
        nvml.before("nvmlDeviceGetPowerUsage", raising(pynvml.NVMLError_Unknown), call)
    for _ in range(3):
        (gpu,) = reader.read().gpus
        assert "power" not in gpu.metrics
        assert gpu.metrics["temperature"] == 40.0
    assert reader.read().gpus[0].metrics["power"] == 26.78


@pytest.mark.parametrize(
    "error", [pynvml.NVMLError_Timeout, pynvml.NVMLError_NotReady, pynvml.NVMLError_NoData, pynvml.NVMLError_InUse]
)
def test_a_temporarily_missing_metric_is_read_again(error: type[pynvml.NVMLError]) -> None:
    nvml = NvmlDouble("t4")
    reader = GpuReader(nvml, nvml.clock)
    nvml.before("nvmlDeviceGetPowerUsage", raising(error))
    assert "power" not in reader.read().gpus[0].metrics
    assert reader.read().gpus[0].metrics["power"] == 26.78


def test_an_unknown_mig_mode_keeps_the_last_one() -> None:
    nvml = NvmlDouble("a100-mig")
    reader = GpuReader(nvml, nvml.clock)
    before = reader.read()
    nvml.before("nvmlDeviceGetMigMode", raising(pynvml.NVMLError_Timeout))
    assert reader.read().gpus == before.gpus


def test_instances_change_between_reads() -> None:
    nvml = NvmlDouble("h100")
    reader = GpuReader(nvml, nvml.clock)
    assert [device.instance for device in reader.read().gpus[0].devices] == [None]
    nvml.repartition(0, Slot(1, "4g.40gb"), Slot(2, "3g.40gb"))
    (gpu,) = reader.read().gpus
    assert gpu.gpu.mig_enabled
    assert [one.profile for one in gpu.gpu.mig] == ["4g.40gb", "3g.40gb"]
    assert [device.instance for device in gpu.devices] == list(gpu.gpu.mig)
    nvml.repartition(0, Slot(0, "7g.80gb"))
    assert [one.profile for one in reader.read().gpus[0].gpu.mig] == ["7g.80gb"]
    nvml.repartition(0, mig=False)
    nvml.cards[0].gpm = {None: {2: 50.0}}
    (gpu,) = reader.read().gpus
    assert not gpu.gpu.mig_enabled
    assert gpu.devices[0].metrics["utilization"] == 0.0  # unsupported in MIG mode, and read again after it
    nvml.now += 1
    assert reader.read().gpus[0].devices[0].metrics["sm_active"] == 0.5
    assert len(nvml.samples) == 2


def test_a_new_instance_with_a_reused_id_has_new_counters() -> None:
    nvml = NvmlDouble("h100")
    nvml.repartition(0, Slot(1, "4g.40gb"))
    nvml.cards[0].gpm = {1: {2: 80.0}}
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    nvml.now += 1
    assert reader.read().gpus[0].devices[0].metrics["sm_active"] == 0.8
    nvml.repartition(0, Slot(1, "3g.40gb"))
    nvml.now += 1
    (device,) = reader.read().gpus[0].devices
    assert device.instance is not None
    assert device.instance.profile == "3g.40gb"
    assert "sm_active" not in device.metrics
    nvml.now += 1
    assert reader.read().gpus[0].devices[0].metrics["sm_active"] == 0.8
    assert len(nvml.samples) == 2


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("nvmlDeviceGetMaxMigDeviceCount", 1),
        ("nvmlDeviceGetMigDeviceHandleByIndex", 2),
        ("nvmlDeviceGetName", 1),
        ("nvmlDeviceGetGpuInstanceId", 2),
        ("nvmlDeviceGetUUID", 2),
        ("nvmlDeviceGetMemoryInfo", 2),
        ("nvmlGpmMigSampleGet", 2),
        ("nvmlGpmMetricsGet", 1),
        ("nvmlDeviceGetComputeRunningProcesses", 2),
    ],
)
@pytest.mark.parametrize("mig", [True, False])
@pytest.mark.parametrize("root", [True, False])
def test_a_repartition_during_a_read(function: str, call: int, mig: bool, root: bool) -> None:
    nvml = NvmlDouble("h100", "t4")
    (card, _) = nvml.cards
    card.root = root
    card.gpm = {0: {2: 10.0}, 1: {2: 80.0}, 2: {2: 20.0}}
    card.processes = [Process(10, gpu_instance_id=2)]
    nvml.repartition(0, Slot(1, "4g.40gb"), Slot(2, "3g.40gb"))
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    old = {slot.uuid for slot in card.slots}
    new = [Slot(0, "7g.80gb")] if mig else []
    nvml.before(function, lambda: nvml.repartition(0, *new, mig=mig), call)
    nvml.now += 1
    sample = reader.read()
    assert uuids(sample) == [H100, T4]
    assert {one.uuid for one in sample.gpus[0].gpu.mig} <= old | {one.uuid for one in new}
    assert [device.instance for device in sample.gpus[0].devices] == list(sample.gpus[0].gpu.mig)
    card.processes = []
    nvml.now += 1
    (gpu, _) = reader.read().gpus
    assert [one.profile for one in gpu.gpu.mig] == [one.profile for one in new]
    nvml.now += 1
    reader.close()
    assert not nvml.samples
    assert not nvml.event_sets


REMOVED = [
    pynvml.NVMLError_Uninitialized,
    pynvml.NVMLError_DriverNotLoaded,
    pynvml.NVMLError_LibRmVersionMismatch,
]


@pytest.mark.parametrize("error", REMOVED)
def test_a_driver_restart_raises_until_it_is_back(error: type[pynvml.NVMLError]) -> None:
    nvml = NvmlDouble("h100", "t4")
    reader = GpuReader(nvml, nvml.clock)
    nvml.cards[1].xids = [31]
    before = reader.read()
    nvml.driver_error = error
    nvml.restart_driver()
    for _ in range(3):
        with pytest.raises(error):
            reader.read()
    assert reader.problem() == str(error())
    nvml.driver_error = None
    nvml.driver = "570.00"
    nvml.now += 1
    after = reader.read()
    assert (after.gpus, after.lost) == (before.gpus, {})
    assert after.driver == "570.00"
    assert after.gpus[1].xids == {31: 1}


def test_a_replaced_driver_is_opened_again_at_once() -> None:
    nvml = NvmlDouble("h100", "t4")
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    nvml.driver_error = pynvml.NVMLError_Unknown
    nvml.before("nvmlInit", lambda: setattr(nvml, "driver_error", None))
    sample = reader.read()
    assert (uuids(sample), sample.lost) == ([H100, T4], {})
    assert nvml.session == 2


def test_the_only_gpu_is_lost() -> None:
    nvml = NvmlDouble("t4")
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    nvml.cards[0].lost = pynvml.NVMLError_GpuIsLost
    for _ in range(60):
        sample = reader.read()
        assert (sample.gpus, sample.lost) == ((), {T4: "GPU is lost"})
        nvml.now += 1
    assert nvml.session == 2  # once, in case the driver was the cause
    nvml.cards[0].lost = None
    assert uuids(reader.read()) == [T4]


@pytest.mark.parametrize(
    "function",
    [
        "nvmlEventSetWait_v2",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetFieldValues",
        "nvmlGpmSampleGet",
        "nvmlGpmMetricsGet",
        "nvmlDeviceGetProcessUtilization",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ],
)
def test_a_driver_restart_during_a_read(function: str) -> None:
    nvml = NvmlDouble("h100")
    nvml.cards[0].gpm = {None: {2: 50.0}}
    nvml.cards[0].processes = [Process(10)]
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    nvml.now += 1
    nvml.before(function, nvml.restart_driver)
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        reader.read()
    for _ in range(2):
        nvml.now += 1
        sample = reader.read()
    assert sample.gpus[0].devices[0].metrics["sm_active"] == 0.5


@pytest.mark.parametrize(
    "function", ["nvmlSystemGetDriverVersion", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName"]
)
def test_a_driver_restart_at_the_start(function: str) -> None:
    nvml = NvmlDouble("h100")
    nvml.before(function, nvml.restart_driver)
    reader = GpuReader(nvml, nvml.clock)
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        reader.read()
    assert uuids(reader.read()) == [H100]


def test_a_process_that_ends_between_the_lists_is_included() -> None:
    nvml = NvmlDouble("t4")
    (card,) = nvml.cards
    nvml.before("nvmlDeviceGetGraphicsRunningProcesses", card.processes.clear)
    reader = GpuReader(nvml, nvml.clock)
    assert [one.pid for one in reader.read().gpus[0].processes] == [5762]
    assert reader.read().gpus[0].processes == ()


def test_a_read_after_close_opens_nvml_again() -> None:
    nvml = NvmlDouble("h100")
    reader = GpuReader(nvml, nvml.clock)
    reader.close()
    assert nvml.session == 0
    reader.read()
    reader.close()
    assert not nvml.initialized
    assert uuids(reader.read()) == [H100]
    assert nvml.session == 2
