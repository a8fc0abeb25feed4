"""The exporter ``nvml`` on synthetic samples, and runs for the processes in them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from hypergauge.core.files.run_folder import RunEnd, RunFolder, SupervisorState
from hypergauge.exporters.nvml.exporter import NvmlExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.text import render
from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.sampling.sample import DeviceSample, GpuProcess, GpuSample, Sample

__all__ = [
    "A100",
    "CONSUMER",
    "GIB",
    "H100",
    "INSTANCES",
    "T0",
    "GivenSamples",
    "Page",
    "Values",
    "end_process",
    "end_run",
    "moved",
    "new_run",
]  # fmt: skip

GIB = 2**30
T0 = 1.75e9

ACTIVITY = {
    "graphics_active": 0.99, "sm_active": 0.875, "sm_occupancy": 0.5, "tensor_active": 0.25, "memory_active": 0.375,
    "fp64_active": 0.0, "fp32_active": 0.125, "fp16_active": 0.0625, "pcie_transmit": 1.5e9, "pcie_receive": 2.5e9,
    "nvlink_transmit": 0.0, "nvlink_receive": 0.0,
}  # fmt: skip
USED = {
    "utilization": 1.0, "memory_utilization": 0.5, "encoder_utilization": 0.0, "decoder_utilization": 0.0,
    "memory_used": 30.0 * GIB, "memory_free": 49.5 * GIB, "memory_reserved": 0.5 * GIB, "memory_total": 80.0 * GIB,
}  # fmt: skip
METRICS = {
    "power": 70.0, "power_peak": 85.125, "power_limit": 700.0, "energy": 123456.789, "temperature": 41.0,
    "memory_temperature": 52.0, "sm_clock": 1.98e9, "memory_clock": 2.619e9, "graphics_clock": 1.98e9,
    "video_clock": 1.545e9, "performance_state": 0.0, "pcie_replays": 3.0, "ecc_corrected": 2.0, "ecc_uncorrected": 0.0,
    "remapped_corrected": 0.0, "remapped_uncorrected": 1.0, "remap_failure": 0.0,
}  # fmt: skip
H100 = GpuSample(
    Gpu(0, "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4", "NVIDIA H100 80GB HBM3", 80 * GIB),
    0,
    "00000000:07:00.0",
    METRICS,
    (DeviceSample(None, {**USED, **ACTIVITY}),),
    throttle={"gpu_idle": True, "sw_power_cap": False, "hw_thermal_slowdown": True},
    xids={31: 2},
    last_xid=31,
    activity="gpm",
)
INSTANCES = (
    MigInstance(1, "MIG-3c2a1bd4-5f5e-5a34-9f0c-6a1d2b3c4d5e", "3g.20gb"),
    MigInstance(9, "MIG-0f9e8d7c-6b5a-5493-8271-605f4e3d2c1b", "1g.5gb"),
)
A100 = GpuSample(
    Gpu(1, "GPU-5d3f1c2b-9a87-4e65-b432-10fedcba9876", "NVIDIA A100-SXM4-40GB", 40 * GIB, INSTANCES, mig_enabled=True),
    1,
    "00000000:0F:00.0",
    {name: METRICS[name] for name in ("power", "power_limit", "energy", "temperature", "sm_clock", "memory_clock")},
    tuple(
        DeviceSample(one, {"memory_used": used * GIB, "memory_free": (total - used) * GIB, "memory_total": total * GIB})
        for one, used, total in ((INSTANCES[0], 12.5, 19.5), (INSTANCES[1], 0.0, 4.75))
    ),
    throttle={},
    last_xid=0,
)
CONSUMER = GpuSample(
    Gpu(0, "GPU-11111111-2222-4333-8444-555555555555", "NVIDIA GeForce RTX 4090", 24 * GIB),
    0,
    "00000000:01:00.0",
    {"power": 25.5, "power_limit": 450.0, "temperature": 38.0, "fan_speed": 0.3, "performance_state": 8.0},
    (DeviceSample(None, {"utilization": 0.02, "memory_used": 1.0 * GIB, "memory_total": 24.0 * GIB}),),
    (GpuProcess(1, 200 * 2**20),),
)


def moved(sample: GpuSample, *processes: GpuProcess, joules: float = 0.0, **metrics: float) -> GpuSample:
    """Return the GPU after further use of energy, with new processes and metrics."""
    changed = {**sample.metrics, **metrics}
    if "energy" in changed:
        changed["energy"] += joules
    return replace(sample, metrics=changed, processes=processes)


class GivenSamples:
    """Reader of given samples."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.reads = self.closed = 0
        self.reason: str | None = None

    def give(self, time: float, *gpus: GpuSample, lost: Mapping[str, str] | None = None) -> GivenSamples:
        """Set the next sample."""
        self.samples.append(Sample(time, "575.57.08", gpus, lost or {}))
        return self

    def problem(self) -> str | None:
        """Return `reason`."""
        return self.reason

    def read(self) -> Sample:
        """Return the next sample."""
        self.reads += 1
        return self.samples.pop(0)

    def close(self) -> None:
        """Count the close."""
        self.closed += 1


class Page:
    """The exporter's exposition."""

    def __init__(self, home: Path, *, own_runs: bool = False) -> None:
        self.given = GivenSamples()
        self.exporter = NvmlExporter(ExporterOptions(home=home, own_runs=own_runs), self.given)

    def exposition(self, time: float, *gpus: GpuSample, lost: Mapping[str, str] | None = None) -> bytes:
        """Return the exposition of a sample."""
        self.given.give(time, *gpus, lost=lost)
        return render(self.exporter.collect())

    def read(self, time: float, *gpus: GpuSample, lost: Mapping[str, str] | None = None) -> Values:
        """Return the values of a sample."""
        return Values(self.exposition(time, *gpus, lost=lost))


class Values:
    """Values of an exposition, by name without ``bench_gpu_`` and some labels."""

    def __init__(self, page: bytes) -> None:
        self.samples = [
            (sample.name.removeprefix("bench_gpu_"), sample.labels, sample.value, sample.timestamp)
            for family in text_string_to_metric_families(page.decode())
            for sample in family.samples
        ]

    def all(self, name: str, **labels: str) -> list[float]:
        """Return the values with a name and labels."""
        return [value for one, of, value, _ in self.samples if one == name and labels.items() <= of.items()]

    def __call__(self, name: str, **labels: str) -> float | None:
        found = self.all(name, **labels)
        assert len(found) <= 1, (name, labels)
        return found[0] if found else None

    def timestamps(self, **labels: str) -> set[float | None]:
        """Return the timestamps of samples with these labels."""
        return {
            None if timestamp is None else float(timestamp)
            for _, of, _, timestamp in self.samples
            if labels.items() <= of.items()
        }


def end_process(pid: int) -> None:
    """End a child without reaping it."""
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def new_run(home: Path, started_at: float = T0 - 5) -> str:
    """Return the id of a live run."""
    run_id = uuid.uuid4().hex
    folder = RunFolder(home / "runs" / run_id)
    folder.create({})
    folder.write_state(SupervisorState(1, 2.0, root_pid=3, started_at=started_at))
    return run_id


def end_run(home: Path, run_id: str, ended_at: float) -> None:
    """Record the end of a run."""
    RunFolder(home / "runs" / run_id).write_end(RunEnd("finished", T0 - 5, ended_at, 0, None, 1.0, 0, 0, 0))
