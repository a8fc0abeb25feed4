"""Metrics of the driver's buffers with samples of a real H200, also through reader and exporter."""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import pynvml
import pytest

from hypergauge.exporters.nvml.exporter import NvmlExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.text import render
from hypergauge.gpu.queries import Queries
from hypergauge.gpu.sampling.buffers import Buffers
from hypergauge.gpu.sampling.reader import GpuReader
from tests.support.exporters.nvml import Values
from tests.support.fakes.nvml_double import Card, NvmlDouble, Slot

CAPTURE = json.loads((Path(__file__).parents[2] / "data" / "nvml" / "samples_h200.json").read_text())
POWER, GPU, MEMORY = 0, 1, 2
UTILIZATION = ("utilization", "memory_utilization")
# Unix seconds.
START = 1_795_800_000


class Driver:
    """H100 with buffers, and their metrics."""

    def __init__(self, *metrics: str) -> None:
        self.nvml = NvmlDouble("h100")
        self.card: Card = self.nvml.cards[0]
        self.card.buffers = {POWER: [], GPU: [], MEMORY: []}
        self.nvml.nvmlInit()
        self.buffers = Buffers(Queries(self.nvml, self.nvml.nvmlDeviceGetHandleByIndex(0)), *metrics)

    def add(self, buffer: int, at: float, *counts: int, gap: float = 0.2) -> None:
        """Add samples, the last one of `at` seconds after the start."""
        assert self.card.buffers is not None
        stamps = [round(1e6 * (START + at - gap * back)) for back in reversed(range(len(counts)))]
        self.card.buffers[buffer] += zip(stamps, counts, strict=True)

    def read(self, at: float) -> dict[str, float]:
        """Return the metrics at so many seconds after the start."""
        return self.buffers.read(START + at)


def fill(card: Card, after: float) -> None:
    """Add captured samples, a microsecond apart, right after a Unix time in seconds."""
    first = int(1e6 * after) + 1
    counts = {buffer: captured(1, buffer)["values"] for buffer in (POWER, GPU, MEMORY)}
    card.buffers = {buffer: list(enumerate(values, first)) for buffer, values in counts.items()}


def captured(read: int, buffer: int) -> Any:
    return next(one for one in CAPTURE if (one["read"], one["buffer"]) == (read, buffer))


@pytest.mark.parametrize("read", [0, 1, 2])
def test_captured_samples_are_averaged_and_the_highest_power_is_kept(read: int) -> None:
    driver = Driver("power_peak", *UTILIZATION)
    assert driver.read(0) == {}
    for buffer in (POWER, GPU, MEMORY):
        one = captured(read, buffer)
        assert one["type"] == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
        driver.add(buffer, 3 - one["age_seconds"], *one["values"], gap=one["gap_us"] / 1e6)
    assert driver.read(3) == {
        "power_peak": max(captured(read, POWER)["values"]) / 1000,
        "utilization": pytest.approx(fmean(captured(read, GPU)["values"]) / 100),
        "memory_utilization": pytest.approx(fmean(captured(read, MEMORY)["values"]) / 100),
    }


def test_a_sample_stands_for_two_seconds_in_which_single_looks_differ() -> None:
    driver = Driver("utilization")
    driver.read(0)
    driver.add(GPU, 1.9, *captured(1, GPU)["values"])
    assert driver.read(2) == {"utilization": pytest.approx(0.494)}  # of looks from 0 to 99 %


def test_samples_from_before_the_first_read_do_not_count() -> None:
    driver = Driver("power_peak", *UTILIZATION)
    for buffer, count in ((POWER, 700_000), (GPU, 100), (MEMORY, 50)):
        driver.add(buffer, 0, *[count] * 71)
    assert driver.read(0) == {}
    assert driver.read(0.1) == {}, "not even later"
    driver.add(GPU, 0.15, 20)
    assert driver.read(0.2) == {"utilization": 0.2}


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS])
def test_without_a_new_sample_the_value_stays(code: int) -> None:
    driver = Driver("power_peak", "utilization")
    driver.card.no_samples = code
    driver.read(0)
    driver.add(POWER, 0.09, 300_000, 500_000, 400_000, gap=0.02)
    driver.add(GPU, 0.05, 40)
    found = [driver.read(at) for at in (0.1, 0.1, 0.2)]  # twice at the same time
    assert found == [{"power_peak": 500.0, "utilization": 0.4}] * 3
    driver.add(GPU, 0.25, 60)
    assert driver.read(0.3) == {"power_peak": 500.0, "utilization": 0.6}


def test_each_sample_counts_once() -> None:
    driver = Driver("utilization")
    driver.read(0)
    percents = []
    for number in range(1, 11):  # every 100 ms, of samples every 200 ms
        if number % 2:
            driver.add(GPU, number / 10 - 0.05, 10 * number)
        percents.append(round(100 * driver.read(number / 10)["utilization"]))
    assert percents == [10, 10, 30, 30, 50, 50, 70, 70, 90, 90]


def test_after_a_longer_time_than_the_buffers_the_metrics_are_of_its_end() -> None:
    driver = Driver("power_peak", "utilization")
    driver.read(0)
    driver.add(POWER, 59.99, *captured(0, POWER)["values"], gap=0.02)
    driver.add(GPU, 59.9, *[30] * 71)
    assert driver.read(60) == {"power_peak": 868.316, "utilization": 0.3}


def test_invalid_samples_are_left_out() -> None:
    driver = Driver("power_peak", "utilization")
    driver.read(0)
    assert driver.card.buffers is not None
    new = int(1e6 * START) + 1
    # Padding, a sample twice, more than 100 %, and a time to come.
    driver.card.buffers[GPU] = [(0, 90), (new, 20), (new, 20), (new + 1, 40), (new + 2, 101), (2**64 - 1, 90)]
    driver.card.buffers[POWER] = [(0, 900_000), (new, 2**32 - 1), (new + 1, 150_000)]
    assert driver.read(1) == {"power_peak": 150.0, "utilization": 0.3}


def test_samples_count_on_after_the_clock_was_set_back() -> None:
    driver = Driver("utilization")
    driver.read(3600)
    driver.add(GPU, 3600.9, 90, 90, 90)
    assert driver.read(3601) == {"utilization": 0.9}
    assert driver.read(1) == {"utilization": 0.9}
    driver.add(GPU, 1.9, 10, 20, 30)
    assert driver.read(2) == {"utilization": 0.2}


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT])
def test_an_unsupported_buffer_is_queried_once(code: int) -> None:
    driver = Driver("power_peak")
    driver.nvml.before("nvmlDeviceGetSamples", lambda: refuse(code))
    driver.add(POWER, 1, 300_000)
    assert [driver.read(at) for at in (0, 1, 2)] == [{}, {}, {}]
    assert driver.nvml.calls["nvmlDeviceGetSamples"] == 1


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_TIMEOUT, pynvml.NVML_ERROR_NO_DATA, pynvml.NVML_ERROR_UNKNOWN])
def test_a_failed_read_is_made_up_for_by_the_next(code: int) -> None:
    driver = Driver("power_peak")
    driver.read(0)
    driver.nvml.before("nvmlDeviceGetSamples", lambda: refuse(code))
    driver.add(POWER, 0.5, 300_000)
    assert driver.read(1) == {}
    driver.add(POWER, 1.5, 200_000)
    assert driver.read(2) == {"power_peak": 300.0}


def test_a_lost_gpu_is_an_error() -> None:
    driver = Driver("power_peak")
    driver.card.lost = pynvml.NVMLError_GpuIsLost
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        driver.read(0)


def refuse(code: int) -> None:
    raise pynvml.NVMLError(code)


def test_a_gpu_has_the_newest_utilization_until_its_buffers_have_a_sample() -> None:
    nvml = NvmlDouble("h100")
    (card,) = nvml.cards
    card.buffers = {POWER: [], GPU: [], MEMORY: []}
    reader = GpuReader(nvml, nvml.clock)
    sample = reader.read()
    (gpu,) = sample.gpus
    assert [gpu.devices[0].metrics[name] for name in UTILIZATION] == [0.0, 0.0]
    assert "power_peak" not in gpu.metrics
    fill(card, sample.time)
    (gpu,) = reader.read().gpus
    assert [gpu.devices[0].metrics[name] for name in UTILIZATION] == pytest.approx([0.494, 0.117])
    assert (gpu.metrics["power"], gpu.metrics["power_peak"]) == (67.74, 900.996)


def test_a_gpu_in_mig_mode_has_a_peak_of_power_alone() -> None:
    nvml = NvmlDouble("h100")
    nvml.repartition(0, Slot(1, "4g.40gb"))
    (card,) = nvml.cards
    card.buffers = {POWER: [], GPU: [], MEMORY: []}
    reader = GpuReader(nvml, nvml.clock)
    fill(card, reader.read().time)
    (gpu,) = reader.read().gpus
    assert gpu.metrics["power_peak"] == 900.996
    assert not gpu.devices[0].metrics.keys() & set(UTILIZATION)
    nvml.repartition(0, mig=False)
    (gpu,) = reader.read().gpus
    assert gpu.devices[0].metrics["utilization"] == 0.0, "not of the time before"
    assert "power_peak" not in gpu.metrics


def test_the_exporter_shows_them(tmp_path: Path) -> None:
    nvml = NvmlDouble("h100")
    (card,) = nvml.cards
    card.buffers = {POWER: [], GPU: [], MEMORY: []}
    exporter = NvmlExporter(ExporterOptions(home=tmp_path), GpuReader(nvml, nvml.clock))
    first = Values(render(exporter.collect()))
    assert (first("utilization_ratio"), first("power_watts"), first("power_peak_watts")) == (0.0, 67.74, None)
    fill(card, time.time())
    second = Values(render(exporter.collect()))
    assert second("utilization_ratio") == pytest.approx(0.494)
    assert second("memory_utilization_ratio") == pytest.approx(0.117)
    assert (second("power_watts"), second("power_peak_watts")) == (67.74, 900.996)
    third = Values(render(exporter.collect()))
    assert third("utilization_ratio") == second("utilization_ratio")
    exporter.close()
    assert Values(render(exporter.collect()))("power_peak_watts") is None, "opened again, and not of the time before"
