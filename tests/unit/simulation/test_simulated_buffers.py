"""Buffers of samples in the simulated driver."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest

from hypergauge.gpu.models import MODELS
from hypergauge.simulation import SimulatedNvml, World
from tests.support.exporters.gpu_work import opened

POWER, GPU, MEMORY, ENCODER = 0, 1, 2, 3
# Unix seconds, on the second: where samples of both buffers are taken.
START = 1_795_800_000


class Stopped:
    """World with one H100, whose time moves by `work` alone."""

    def __init__(self) -> None:
        self.world = World.open("1xH100")
        self.nvml = SimulatedNvml(self.world)
        self.nvml.nvmlInit()
        self.handle = self.nvml.nvmlDeviceGetHandleByIndex(0)
        with self.world.change() as state:
            state["at"] = round(state["at"]) + 10_000.0  # nothing changes by itself before
            state["time"] = START

    def work(self, seconds: float, busy: float, watts: float) -> None:
        with self.world.change() as state:
            (gpu,) = state["gpus"]
            state["at"] += seconds
            state["time"] += seconds
            state["devices"][gpu["uuid"]]["busy"] += busy * seconds
            gpu["energy"] += watts * seconds

    def samples(self, buffer: int, since: float = 0) -> list[tuple[float, int]]:
        """Return samples after `since`: seconds from the start, and the count."""
        value_type, samples = self.nvml.nvmlDeviceGetSamples(self.handle, buffer, int(1e6 * (START + since)))
        assert value_type == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
        return [(round(one.timeStamp / 1e6 - START, 3), one.sampleValue.uiVal) for one in samples]


def test_the_buffers_of_an_idle_gpu_are_full() -> None:
    stopped = Stopped()
    power = stopped.samples(POWER, -1e9)
    assert [at for at, _ in power] == [round(-0.02 * back, 3) for back in reversed(range(119))]
    assert {milliwatts for _, milliwatts in power} == {1000 * MODELS["H100"].idle_watts}
    for buffer in (GPU, MEMORY, ENCODER):
        assert stopped.samples(buffer, -1e9) == [(round(-0.2 * back, 3), 0) for back in reversed(range(71))]


def test_samples_are_means_of_the_load() -> None:
    stopped = Stopped()
    for buffer in (POWER, GPU):
        stopped.samples(buffer, -1)
    stopped.work(0.5, 1.0, 600)
    stopped.samples(POWER)
    stopped.work(0.52, 0.5, 350)
    assert stopped.samples(GPU) == [(0.2, 100), (0.4, 100), (0.6, 75), (0.8, 50), (1.0, 50)]
    assert stopped.samples(MEMORY, 0.6) == [(0.8, 30), (1.0, 30)]
    power = stopped.samples(POWER)
    assert power == [(round(0.02 * nth, 3), 600_000 if nth <= 25 else 350_000) for nth in range(1, 52)]


def test_a_longer_time_is_in_the_buffers_to_their_depth() -> None:
    stopped = Stopped()
    stopped.samples(GPU, -1)
    stopped.work(60, 0.25, 300)
    found = stopped.samples(GPU)
    assert (len(found), found[0], found[-1]) == (71, (46.0, 25), (60.0, 25))
    assert len(stopped.samples(POWER)) == 119


def test_samples_begin_anew_after_the_clock_was_set_back() -> None:
    stopped = Stopped()
    stopped.samples(GPU, -1)
    stopped.work(1, 1.0, 600)
    stopped.samples(GPU)
    with stopped.world.change() as state:
        state["time"] -= 3600
    assert stopped.samples(GPU, -3601)[-1] == (-3599.0, 0)
    with pytest.raises(pynvml.NVMLError_NotFound):
        stopped.samples(GPU)


@pytest.mark.parametrize(
    ("specification", "buffer", "error"),
    [
        ("1xH100", POWER, pynvml.NVMLError_NotFound),  # nothing new
        ("1xH100", pynvml.NVML_PROCESSOR_CLK_SAMPLES, pynvml.NVMLError_NotFound),
        ("1xH100", pynvml.NVML_MODULE_POWER_SAMPLES, pynvml.NVMLError_InvalidArgument),
        ("1xH100:mig", GPU, pynvml.NVMLError_NotSupported),
    ],
)
def test_without_samples_it_is_an_error(specification: str, buffer: int, error: type[Exception]) -> None:
    nvml = opened(specification)
    later = 2**62
    with pytest.raises(error):
        nvml.nvmlDeviceGetSamples(nvml.nvmlDeviceGetHandleByIndex(0), buffer, later)


def test_a_gpu_in_mig_mode_has_its_power_and_its_instances_have_none() -> None:
    nvml = opened("1xH100:1x3g.40gb")
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    samples: list[Any] = nvml.nvmlDeviceGetSamples(gpu, POWER, 0)[1]
    assert {one.sampleValue.uiVal for one in samples} == {1000 * MODELS["H100"].idle_watts}
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetSamples(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0), POWER, 0)
