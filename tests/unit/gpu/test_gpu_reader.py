"""Samples of real devices, as described by nvidia-smi."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from hypergauge import gpu
from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.sampling.reader import GpuReader
from hypergauge.gpu.sampling.sample import DeviceSample, GpuProcess, GpuSample
from tests.support.fakes.nvml_double import MIB, NvmlDouble, Process, Slot
from tests.support.fakes.nvml_functions import FUNCTIONS

_REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
)
_IDLE = {"utilization": 0.0, "memory_utilization": 0.0, "encoder_utilization": 0.0, "decoder_utilization": 0.0}
_PCIE = {197: 1_000_000, 198: 2_000_000}
_NVLINK = {138: 100, 139: 200}


def throttled_by(*reasons: str) -> dict[str, bool]:
    return {reason: reason in reasons for reason in _REASONS}


def bytes_of(total: int, reserved: int, used: int, free: int) -> dict[str, float]:
    names = ("total", "reserved", "used", "free")
    return {f"memory_{name}": mib * MIB for name, mib in zip(names, (total, reserved, used, free), strict=True)}


T4 = GpuSample(
    Gpu(0, "GPU-d37e67a5-91dd-3774-a5cb-99096249601a", "Tesla T4", 15360 * MIB),
    0,
    "00000000:00:1E.0",
    {
        "power": 26.78, "power_limit": 70.0, "energy": 1000.0, "temperature": 40.0,
        "sm_clock": 585e6, "graphics_clock": 585e6, "memory_clock": 5000e6, "video_clock": 810e6,
        "performance_state": 0.0, "pcie_replays": 0.0, "ecc_corrected": 0.0, "ecc_uncorrected": 0.0,
    },
    (DeviceSample(None, _IDLE | bytes_of(15360, 388, 1032, 13939)),),
    (GpuProcess(675, 22 * MIB, 0.0), GpuProcess(5762, 1005 * MIB, 0.0)),
    throttled_by(),
    {},
    0,
    None,
)  # fmt: skip
RTX_3080 = GpuSample(
    Gpu(0, "GPU-19d6d965-2acc-f646-00f8-4c76979aabb4", "NVIDIA GeForce RTX 3080", 10240 * MIB),
    0,
    "00000000:04:00.0",
    {
        "power": 22.78, "power_limit": 336.0, "energy": 1000.0, "temperature": 31.0,
        "sm_clock": 210e6, "graphics_clock": 210e6, "memory_clock": 405e6, "video_clock": 555e6,
        "fan_speed": 0.0, "performance_state": 8.0, "pcie_replays": 0.0,
    },
    (DeviceSample(None, _IDLE | {"memory_utilization": 0.37} | bytes_of(10240, 173, 1128, 8938)),),
    (GpuProcess(835, 550 * MIB, 0.0), GpuProcess(1481, 18 * MIB, 0.0), GpuProcess(4044, 541 * MIB, 0.0)),
    throttled_by("gpu_idle"),
    {},
    0,
    None,
)  # fmt: skip
H100 = GpuSample(
    Gpu(0, "GPU-ee7954ec-da95-fd7a-ddfd-c6b32cc2f8aa", "NVIDIA H100 80GB HBM3", 81559 * MIB),
    0,
    "00000000:19:00.0",
    {
        "power": 67.74, "power_limit": 700.0, "energy": 1000.0, "temperature": 29.0, "memory_temperature": 39.0,
        "sm_clock": 86e6, "graphics_clock": 86e6, "memory_clock": 2619e6, "video_clock": 765e6,
        "performance_state": 0.0, "pcie_replays": 67.0, "ecc_corrected": 0.0, "ecc_uncorrected": 0.0,
        "remapped_corrected": 0.0, "remapped_uncorrected": 0.0, "remap_failure": 0.0,
    },
    (DeviceSample(None, _IDLE | bytes_of(81559, 551, 0, 81007)),),
    (),
    throttled_by("hw_slowdown", "hw_power_brake_slowdown"),
    {},
    0,
    "gpm",
)  # fmt: skip


@pytest.mark.parametrize(
    ("document", "driver", "expected"),
    [("t4", "515.105.01", T4), ("rtx-3080", "536.40", RTX_3080), ("h100", "535.161.08", H100)],
)
def test_each_device_has_exactly_its_supported_metrics(document: str, driver: str, expected: GpuSample) -> None:
    nvml = NvmlDouble(document)
    reader = GpuReader(nvml, nvml.clock)
    assert reader.problem() is None
    before = time.time()
    sample = reader.read()
    assert before <= sample.time <= time.time()
    assert (sample.driver, sample.lost) == (driver, {})
    assert sample.gpus == (expected,)
    nvml.now += 1
    assert reader.read().gpus == (expected,)


def test_mig_instances_have_their_memory_and_one_gpu() -> None:
    nvml = NvmlDouble("a100-mig")
    (gpu,) = GpuReader(nvml, nvml.clock).read().gpus
    instances = tuple(MigInstance(slot.gpu_instance_id, slot.uuid, "1g.20gb") for slot in nvml.cards[0].slots)
    uuid = "GPU-513536b6-7d19-9063-b049-1e69664bb298"
    assert gpu.gpu == Gpu(0, uuid, "NVIDIA A100-SXM4-80GB", 81920 * MIB, instances, mig_enabled=True)
    assert [instance.gpu_instance_id for instance in instances] == [3, 4, 5, 6]
    assert gpu.devices == tuple(DeviceSample(one, bytes_of(19968, 0, 12, 19955)) for one in instances)
    assert gpu.minor == 1
    assert (gpu.metrics["power"], gpu.metrics["memory_temperature"]) == (67.03, 44.0)
    assert gpu.activity is None


def test_a_gpu_in_mig_mode_without_instances_has_no_devices() -> None:
    nvml = NvmlDouble("a100-mig")
    nvml.repartition(0)
    (gpu,) = GpuReader(nvml, nvml.clock).read().gpus
    assert (gpu.devices, gpu.gpu.mig, gpu.gpu.mig_enabled) == ((), (), True)


def test_compute_instances_count_as_their_gpu_instance() -> None:
    nvml = NvmlDouble("a100-mig")
    nvml.repartition(0, Slot(1, "1c.3g.40gb"), Slot(1, "2c.3g.40gb"), Slot(2, "3g.40gb"))
    (gpu,) = GpuReader(nvml, nvml.clock).read().gpus
    assert [(one.gpu_instance_id, one.profile) for one in gpu.gpu.mig] == [(1, "3g.40gb"), (2, "3g.40gb")]
    assert len(gpu.devices) == 2


def test_unsupported_queries_are_not_repeated() -> None:
    nvml = NvmlDouble("rtx-3080")
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    first_calls = nvml.calls.copy()
    for _ in range(5):
        nvml.now += 1
        reader.read()
    for function in (
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetFieldValues",
        "nvmlGpmQueryDeviceSupport",
        "nvmlDeviceGetName",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetMinorNumber",
    ):
        assert nvml.calls[function] == first_calls[function], function
    assert nvml.calls["nvmlDeviceGetPowerUsage"] == 6
    nvml.restart_driver()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        reader.read()
    reader.read()
    assert nvml.calls["nvmlDeviceGetRemappedRows"] == 2 * first_calls["nvmlDeviceGetRemappedRows"]


def test_counters_become_rates_between_reads() -> None:
    nvml = NvmlDouble("t4")
    (card,) = nvml.cards
    reader = GpuReader(nvml, nvml.clock)
    card.counters = _PCIE | _NVLINK

    def traffic() -> dict[str, float]:
        values = reader.read().gpus[0].devices[0].metrics
        return {name: values[name] for name in values if name.startswith(("pcie", "nvlink"))}

    assert traffic() == {}
    nvml.now += 2
    card.counters = {197: 1_000_500, 198: 2_000_000, 138: 110, 139: 202}
    assert traffic() == {
        "pcie_transmit": 250.0,
        "pcie_receive": 0.0,
        "nvlink_transmit": 5 * 1024.0,
        "nvlink_receive": 1024.0,
    }
    nvml.now += 1
    card.counters = {197: 7, 198: 2_000_100, 138: 110, 139: 2**64 - 1}  # one fell, one is a sentinel
    assert traffic() == {"pcie_receive": 100.0, "nvlink_transmit": 0.0}
    nvml.now += 1
    card.counters = {197: 17, 198: 2_000_100, 138: 110, 139: 210}
    assert traffic() == {"pcie_transmit": 10.0, "pcie_receive": 0.0, "nvlink_transmit": 0.0}


def test_each_process_is_listed_once() -> None:
    nvml = NvmlDouble("t4")
    (card,) = nvml.cards
    card.processes = [
        Process(10, "C", 5 * MIB),
        Process(30, "C+G", 7 * MIB),
        Process(20, "M+C", None),
        Process(15, "C", 2**64 - 1),
        Process(16, "G", 0),
    ]
    now = int(time.time() * 1e6)
    card.utilization = [
        (10, now + 1, 20),
        (10, now + 2, 40),
        (20, now + 1, 70),
        (30, 5, 99),  # long ago
        (16, now + 1, 4294967295),  # padding of some drivers
        (99, now + 2, 10),  # just ended
    ]
    reader = GpuReader(nvml, nvml.clock)
    assert reader.read().gpus[0].processes == (
        GpuProcess(10, 5 * MIB, 0.3),
        GpuProcess(15, None, 0.0),
        GpuProcess(16, 0, 0.0),
        GpuProcess(20, None, 0.7, mps=True),
        GpuProcess(30, 7 * MIB, 0.0),
    )
    del card.processes[1:]
    card.utilization.append((10, now + 3, 50))
    assert reader.read().gpus[0].processes == (GpuProcess(10, 5 * MIB, 0.5),)
    for card.no_samples in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS):
        assert reader.read().gpus[0].processes == (GpuProcess(10, 5 * MIB, 0.0),)


@pytest.fixture
def mps_server(tmp_path: Path) -> Iterator[int]:
    """PID of a process with the name of NVIDIA's MPS server."""
    program = tmp_path / "nvidia-cuda-mps-server"
    program.write_text("#!/bin/sh\necho\nread line\n")
    program.chmod(0o700)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        yield server.pid


def test_an_mps_server_computes_for_its_clients(mps_server: int) -> None:
    """As an H200 with driver 580.159 lists them: utilization has the server's pid alone."""
    nvml = NvmlDouble("t4")
    (card,) = nvml.cards
    first, second = Process(563, "M+C", 1_048_576_000), Process(564, "M+C", 1_405_091_840)
    card.processes = [Process(mps_server, "C", 69_206_016), Process(492, "C", MIB), first, second]
    now = int(time.time() * 1e6)
    card.utilization = [(mps_server, now + 1, 20), (492, now + 2, 80)]
    reader = GpuReader(nvml, nvml.clock)
    assert reader.read().gpus[0].processes == (
        GpuProcess(492, MIB, 0.8),
        GpuProcess(563, 1_048_576_000, None, mps=True, mps_utilization=0.2),
        GpuProcess(564, 1_405_091_840, None, mps=True, mps_utilization=0.2),
    )
    card.processes = [Process(mps_server, "C", 69_206_016), first]
    card.utilization = [(mps_server, now + 3, 99)]
    assert reader.read().gpus[0].processes == (GpuProcess(563, 1_048_576_000, 0.99, mps=True, mps_utilization=0.99),), (
        "the only client's own"
    )
    card.processes = card.processes[:1]
    assert reader.read().gpus[0].processes == ()


def test_unsupported_process_utilization_is_queried_once() -> None:
    nvml = NvmlDouble("t4")
    nvml.cards[0].utilization = None
    reader = GpuReader(nvml, nvml.clock)
    for _ in range(3):
        assert {one.sm_utilization for one in reader.read().gpus[0].processes} == {None}
    assert nvml.calls["nvmlDeviceGetProcessUtilization"] == 1


@pytest.mark.parametrize("root", [True, False])
def test_processes_under_mig_have_their_instance_and_no_utilization(root: bool) -> None:
    nvml = NvmlDouble("a100-mig")
    (card,) = nvml.cards
    card.root = root
    card.processes = [Process(10, gpu_instance_id=4), Process(11, "M+C", gpu_instance_id=6)]
    reader = GpuReader(nvml, nvml.clock)
    expected = (
        GpuProcess(10, 100 * MIB, gpu_instance_id=4),
        GpuProcess(11, 100 * MIB, gpu_instance_id=6, mps=True),
    )
    for _ in range(2):
        assert reader.read().gpus[0].processes == expected
    assert not nvml.calls["nvmlDeviceGetProcessUtilization"]


def test_xid_errors_are_counted_by_number() -> None:
    nvml = NvmlDouble("t4")
    (card,) = nvml.cards
    reader = GpuReader(nvml, nvml.clock)
    assert (reader.read().gpus[0].xids, reader.read().gpus[0].last_xid) == ({}, 0)
    card.xids = [31, 13, 31]
    (gpu,) = reader.read().gpus
    assert (gpu.xids, gpu.last_xid) == ({31: 2, 13: 1}, 31)
    card.xids = [48]
    (gpu,) = reader.read().gpus
    assert (gpu.xids, gpu.last_xid) == ({31: 2, 13: 1, 48: 1}, 48)


def test_a_device_without_xid_events_has_none() -> None:
    nvml = NvmlDouble("t4")
    nvml.cards[0].xids = None
    (gpu,) = GpuReader(nvml, nvml.clock).read().gpus
    assert (gpu.xids, gpu.last_xid) == ({}, None)


@pytest.mark.parametrize(
    ("function", "name", "blank"),
    [
        ("nvmlDeviceGetPowerUsage", "power", 2**32 - 1),
        ("nvmlDeviceGetTotalEnergyConsumption", "energy", 2**64 - 1),
        ("nvmlDeviceGetTotalEnergyConsumption", "energy", 9223372036854775794),
        ("nvmlDeviceGetPerformanceState", "performance_state", pynvml.NVML_PSTATE_UNKNOWN),
        ("nvmlDeviceGetFanSpeed", "fan_speed", 2**32 - 1),
    ],
)
def test_sentinels_are_left_out(function: str, name: str, blank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, function, lambda *_: blank)
    nvml = NvmlDouble("rtx-3080")
    (gpu,) = GpuReader(nvml, nvml.clock).read().gpus
    assert name not in gpu.metrics
    assert len(gpu.metrics) == len(RTX_3080.metrics) - 1


def test_an_old_driver_counts_reserved_memory_as_used() -> None:
    nvml = NvmlDouble("t4")
    nvml.driver = "470.57"
    (gpu,) = GpuReader(nvml, nvml.clock).read().gpus
    values = gpu.devices[0].metrics
    assert "memory_reserved" not in values
    assert values["memory_used"] == (1032 + 388) * MIB


def test_every_called_function_exists_in_pynvml() -> None:
    """A missing function is no error, so a misspelt name would go unnoticed."""
    folder = Path(gpu.__file__).parent
    names = {
        name
        for file in folder.rglob("*.py")
        for name in re.findall(r"\bnvml(?:Device|Event|Gpm|System|Init|Shutdown)\w*", file.read_text())
    }
    assert len(names) > 40
    forms = {name + form for name in names if name.endswith("Clocks") for form in ("EventReasons", "ThrottleReasons")}
    whole = {name for name in names if not name.endswith("Clocks")} | forms
    assert {name for name in whole if not hasattr(pynvml, name)} == set()


def test_problem_names_a_missing_driver() -> None:
    reader = GpuReader(pynvml)
    problem = reader.problem()
    if problem is None:
        pytest.skip("this host has an NVIDIA driver")
    assert problem in ("NVML Shared Library Not Found", "Driver Not Loaded")
    with pytest.raises(pynvml.NVMLError, match=problem):
        reader.read()
    reader.close()


def test_problem_names_a_host_without_gpus() -> None:
    nvml = NvmlDouble("t4")
    nvml.cards.clear()
    reader = GpuReader(nvml, nvml.clock)
    assert reader.problem() == "this host has no NVIDIA GPU"
    assert reader.read().gpus == ()
