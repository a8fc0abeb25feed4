"""Queries that fail alone: each costs its own metric, and no GPU."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest

from hypergauge.gpu.inventory import inventory
from hypergauge.gpu.sampling.reader import GpuReader
from tests.support.fakes.nvml_double import NvmlDouble
from tests.support.fakes.nvml_functions import FUNCTIONS

# Without them there is no GPU to name.
ESSENTIAL = {
    "nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID",
}  # fmt: skip
# Without them there is no MIG instance to name.
OF_MIG = {
    "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceId",
}  # fmt: skip
ERRORS = [
    pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_TIMEOUT,
    pynvml.NVML_ERROR_NO_DATA, pynvml.NVML_ERROR_UNKNOWN,
]  # fmt: skip


def nvml() -> NvmlDouble:
    return NvmlDouble("t4", "h100", "a100-mig")


def refusing(monkeypatch: pytest.MonkeyPatch, error: int, *functions: str) -> None:
    def refuse(*_: Any) -> None:
        raise pynvml.NVMLError(error)

    for function in functions:
        monkeypatch.setitem(FUNCTIONS, function, refuse)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("function", sorted(FUNCTIONS.keys() - ESSENTIAL))
def test_a_query_that_fails_costs_no_gpu(function: str, error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, instances = inventory(nvml=nvml()).gpus, [len(gpu.mig) for gpu in inventory(nvml=nvml()).gpus]
    refusing(monkeypatch, error, function)
    found = inventory(nvml=nvml())
    assert ([gpu.uuid for gpu in found.gpus], found.reason) == ([gpu.uuid for gpu in whole], None)
    if function not in OF_MIG:
        assert [len(gpu.mig) for gpu in found.gpus] == instances
    double = nvml()
    reader = GpuReader(double, double.clock)
    assert reader.problem() is None
    for _ in range(3):
        sample = reader.read()
        double.now += 1
        assert ([one.gpu.uuid for one in sample.gpus], sample.lost) == ([gpu.uuid for gpu in whole], {})
    if function not in OF_MIG | {"nvmlDeviceGetMemoryInfo"} or (
        function == "nvmlDeviceGetMemoryInfo" and error == pynvml.NVML_ERROR_NOT_SUPPORTED
    ):
        assert [sum(one.instance is not None for one in gpu.devices) for gpu in sample.gpus] == instances


def test_a_gpu_without_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """DGX Spark's GB10 and Jetson Thor share the memory of the host."""
    expected = {one.gpu.uuid: one for one in GpuReader(nvml()).read().gpus}
    refusing(monkeypatch, pynvml.NVML_ERROR_NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo")
    found = inventory(nvml=nvml())
    assert [gpu.memory_bytes for gpu in found.gpus] == [None, None, None]
    assert [gpu.mig_profiles for gpu in found.gpus] == [(), (), ()]
    assert found.find("0").describe() == "Tesla T4"
    for one in GpuReader(nvml()).read().gpus:
        whole = expected[one.gpu.uuid]
        assert one.metrics == whole.metrics
        for device, other in zip(one.devices, whole.devices, strict=True):
            assert device.metrics == {n: value for n, value in other.metrics.items() if not n.startswith("memory_") or n == "memory_utilization"}  # fmt: skip


def test_a_gpu_that_answers_unknown_to_every_query_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic = [name for name in FUNCTIONS if name.startswith("nvmlDeviceGet")]
    refusing(monkeypatch, pynvml.NVML_ERROR_UNKNOWN, *(set(dynamic) - ESSENTIAL))
    found = inventory(nvml=NvmlDouble("t4"))
    assert (found.gpus, found.reason) == ((), "GPU 0: Unknown Error")
