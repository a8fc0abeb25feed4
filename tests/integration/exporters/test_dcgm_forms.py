"""NVIDIA's dcgm-exporter as a target: older and newer versions and our exporter give the same charts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hypergauge.exporters.dcgm import DcgmExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.text import render
from hypergauge.gpu import Gpu, MigInstance
from hypergauge.gpu.sampling.sample import DeviceSample, GpuSample, Sample
from tests.support.world import World

SCRAPES = Path(__file__).parents[2] / "data" / "scrapes"
GPU = Gpu(0, "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4", "NVIDIA H100 80GB HBM3", 80 * 2**30)
WATTS = 512.25
MIB = 2.0**20
SECONDS = 30

Exposition = Callable[[int], bytes]

WHOLE = {
    "utilization": 0.96, "memory_utilization": 0.41, "encoder_utilization": 0.0, "decoder_utilization": 0.25,
    "memory_free": 40448 * MIB, "memory_used": 40960 * MIB, "memory_reserved": 151 * MIB, "graphics_active": 0.96,
    "tensor_active": 0.31, "memory_active": 0.27, "pcie_transmit": 104857600.0, "pcie_receive": 209715200.0,
}  # fmt: skip
METRICS = {
    "sm_clock": 1980e6, "memory_clock": 2619e6, "memory_temperature": 46.0, "temperature": 52.0, "power": WATTS,
    "pcie_replays": 0.0, "remapped_uncorrected": 0.0, "remapped_corrected": 0.0, "remap_failure": 0.0,
}  # fmt: skip
QUANTITIES = (
    "gpu_utilization", "gpu_memory_utilization", "gpu_encoder_utilization", "gpu_decoder_utilization", "gpu_memory_used",
    "gpu_memory_free", "gpu_memory_reserved", "gpu_power", "gpu_temperature", "gpu_memory_temperature", "gpu_sm_clock",
    "gpu_memory_clock", "gpu_tensor_active", "gpu_memory_active", "gpu_pcie_transmit", "gpu_pcie_receive",
    "gpu_pcie_replays", "gpu_remapped_rows_uncorrectable", "gpu_remapped_rows_correctable", "gpu_row_remap_failure",
    "gpu_last_xid",
)  # fmt: skip
MIG_QUANTITIES = ("gpu_utilization", "gpu_memory_used", "gpu_power", "gpu_temperature")


class Reader:
    """Reader of a GPU whose energy rises with its power."""

    def __init__(self, metrics: dict[str, float], devices: tuple[DeviceSample, ...]) -> None:
        self.metrics, self.devices = metrics, devices
        self.second = 0

    def problem(self) -> str | None:
        return None

    def read(self) -> Sample:
        metrics = {**self.metrics, "energy": 1e6 + WATTS * self.second}
        gpu = GpuSample(GPU, 0, "00000000:07:00.0", metrics, self.devices, last_xid=0, activity="gpm")
        return Sample(0.0, "575.57.08", (gpu,))

    def close(self) -> None: ...


def original(name: str, label: str) -> Exposition:
    """Return expositions of a dcgm-exporter with `label` as its host's label."""
    text = (SCRAPES / f"{name}.prom").read_text().replace(",hostname=", f",{label}=")
    return lambda second: text.replace("{energy_mj}", f"{(1e6 + WATTS * second) * 1000:.0f}").encode()


def ours(folder: Path, metrics: dict[str, float], *devices: DeviceSample) -> Exposition:
    reader = Reader(metrics, devices)
    exporter = DcgmExporter(
        ExporterOptions(folder), environment={"PATH": ""}, nvml=object(), reader=lambda _: reader, hostname="node1"
    )

    def exposition(second: int) -> bytes:
        reader.second = second
        return render(exporter.collect())

    return exposition


def charts(
    world: World, form: int, exposition: Exposition, quantities: tuple[str, ...], instance: int | None = None
) -> object:
    """Scrape the exposition once per second during a run of its own, and return the run's charts."""
    start = time.time() // 60 * 60 - 3600 + 60 * form
    run = world.run(start, start + SECONDS, position=1 + form, gpu=GPU.uuid, gpu_instance=instance)
    expositions = [(start + second, exposition(second)) for second in range(SECONDS)]
    world.write(world.scraped(expositions, f"dcgm{form}"))
    found = {}
    for quantity in quantities:
        found[quantity] = world.connection.execute(
            "select extract(epoch from time)::float, scope, value, low, high from run_chart(array[%s], array[%s], null, "
            "null, 1000, true, 10, null, false) order by 1",
            (run, quantity),
        ).fetchall()
        assert found[quantity], quantity
    return found


def test_a_gpu_is_charted_the_same(world: World, tmp_path: Path) -> None:
    forms = (
        original("dcgm_exporter", "hostname"),
        original("dcgm_exporter", "Hostname"),
        ours(tmp_path, METRICS, DeviceSample(None, WHOLE)),
    )
    newer, older, own = (charts(world, n, form, QUANTITIES) for n, form in enumerate(forms))
    assert newer == older == own


@pytest.mark.parametrize("instance", [3, 7])
def test_a_mig_instance_is_charted_the_same(world: World, tmp_path: Path, instance: int) -> None:
    metrics = {"temperature": 52.0, "power": WATTS}
    small = DeviceSample(MigInstance(7, "MIG-1", "1g.10gb"), {"memory_used": 4096 * MIB, "graphics_active": 0.25})
    large = DeviceSample(MigInstance(3, "MIG-2", "2g.20gb"), {"memory_used": 8192 * MIB, "graphics_active": 0.75})
    forms = (
        original("dcgm_exporter_mig", "hostname"),
        original("dcgm_exporter_mig", "Hostname"),
        ours(tmp_path, metrics, small, large),
    )
    newer, older, own = (charts(world, n, form, MIG_QUANTITIES, instance) for n, form in enumerate(forms))
    assert newer == older == own


def test_the_exporter_replaces_a_dcgm_exporter(tmp_path: Path) -> None:
    """The same series continue under the same target: the original's older format and ours have equal labels."""
    expositions = [original("dcgm_exporter", "Hostname")(0), ours(tmp_path, METRICS, DeviceSample(None, WHOLE))(0)]
    series = []
    for exposition in expositions:
        lines = (line for line in exposition.decode().splitlines() if not line.startswith("#"))
        series.append({line.rpartition(" ")[0] for line in lines})
    left_out = ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_VGPU_LICENSE_STATUS")  # not supported by NVML
    assert {name for name in series[0] if not name.startswith(left_out)} == series[1]
