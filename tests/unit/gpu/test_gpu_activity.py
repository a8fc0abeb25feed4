"""Activity of GPUs and their instances by GPM."""

from __future__ import annotations

import math

import pynvml
import pytest

from hypergauge.gpu.sampling.reader import GpuReader
from tests.support.fakes.nvml_double import MIB, NvmlDouble, Slot

_PCIE = {197: 1_000_000, 198: 2_000_000}
GPM = {1: 90.0, 2: 50.0, 3: 25.0, 5: 12.5, 10: 33.0, 11: 0.0, 12: 100.04, 13: 1.0, 20: 3.0, 21: 4.0, 60: 5.0, 61: 6.0}
ACTIVE = {
    "graphics_active": 0.9,
    "sm_active": 0.5,
    "sm_occupancy": 0.25,
    "tensor_active": 0.125,
    "memory_active": 0.33,
    "fp64_active": 0.0,
    "fp32_active": 1.0,
    "fp16_active": 0.01,
    "pcie_transmit": 3.0 * MIB,
    "pcie_receive": 4.0 * MIB,
    "nvlink_receive": 5.0 * MIB,
    "nvlink_transmit": 6.0 * MIB,
}


def test_gpm_covers_the_time_since_the_last_read() -> None:
    nvml = NvmlDouble("h100")
    (card,) = nvml.cards
    card.gpm = {None: GPM}
    card.counters = _PCIE  # not read with GPM
    reader = GpuReader(nvml, nvml.clock)
    assert not ACTIVE.keys() & reader.read().gpus[0].devices[0].metrics.keys()
    nvml.now += 1
    values = reader.read().gpus[0].devices[0].metrics
    assert {name: values[name] for name in ACTIVE} == ACTIVE
    nvml.now += 0.05  # too soon after the last read: the same values
    card.gpm = {None: {2: 10.0}}
    assert reader.read().gpus[0].devices[0].metrics == values
    nvml.now += 0.06
    values = reader.read().gpus[0].devices[0].metrics
    assert {name: values[name] for name in ACTIVE if name in values} == {"sm_active": 0.1}


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 140737488355328.0, 9223372036854775792.0])
def test_gpm_leaves_out_invalid_numbers(value: float) -> None:
    nvml = NvmlDouble("h100")
    nvml.cards[0].gpm = {None: {2: value, 20: value, 1: 100.0}}
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    nvml.now += 1
    values = reader.read().gpus[0].devices[0].metrics
    assert {name for name in ACTIVE if name in values} == {"graphics_active"}


def test_without_permission_for_gpm_counters_are_read() -> None:
    nvml = NvmlDouble("h100")
    (card,) = nvml.cards
    card.counters = dict(_PCIE)
    nvml.before("nvmlGpmSampleGet", lambda: refuse(pynvml.NVML_ERROR_NO_PERMISSION))
    reader = GpuReader(nvml, nvml.clock)
    assert reader.read().gpus[0].activity is None
    for _ in range(2):
        nvml.now += 1
        (gpu,) = reader.read().gpus
    assert gpu.devices[0].metrics["pcie_transmit"] == 0.0
    assert nvml.calls["nvmlGpmSampleGet"] == 1
    assert not nvml.samples


def test_gpm_restarts_after_a_long_gap() -> None:
    nvml = NvmlDouble("h100")
    nvml.cards[0].gpm = {None: GPM}
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    nvml.now += 3600
    assert "sm_active" not in reader.read().gpus[0].devices[0].metrics
    nvml.now += 1
    assert reader.read().gpus[0].devices[0].metrics["sm_active"] == 0.5
    assert len(nvml.samples) == 2
    reader.close()
    reader.close()
    assert not nvml.samples
    assert not nvml.event_sets


def test_gpm_per_instance() -> None:
    nvml = NvmlDouble("h100")
    nvml.repartition(0, Slot(1, "4g.40gb"), Slot(2, "3g.40gb"))
    nvml.cards[0].gpm = {1: {2: 80.0}, 2: {2: 20.0}}
    reader = GpuReader(nvml, nvml.clock)
    reader.read()
    nvml.now += 1
    (gpu,) = reader.read().gpus
    assert [device.metrics["sm_active"] for device in gpu.devices] == [0.8, 0.2]
    assert gpu.activity == "gpm"


def refuse(code: int) -> None:
    raise pynvml.NVMLError(code)
