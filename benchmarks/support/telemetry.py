"""Accuracy of the exporters ``nvml`` and ``dcgm`` on GPUs whose load moves as in a training.

Samples are simulated, since the measuring machine may have no GPU; the exporters render them. Levels and noise are those of
a busy H200: a load phase, steps with noise of some per cent, evaluations, checkpoints without compute, clocks under the
power limit, temperatures that follow slowly. Values have the device's resolution: six decimals for ratios, milliwatts.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hypergauge.exporters.dcgm import DcgmExporter
from hypergauge.exporters.nvml.exporter import NvmlExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.text import render
from hypergauge.gpu import Gpu, MigInstance
from hypergauge.gpu.sampling.sample import DeviceSample, GpuSample, Sample

__all__ = ["INSTANCES", "Host", "Part", "SimulatedBoard"]

_MODEL = "NVIDIA H200"
_DRIVER = "575.57"
_MEMORY_MIB = 143_771
# MIG instances of each GPU, as profile and GPU instance id; an empty tuple is a whole GPU.
INSTANCES: tuple[tuple[tuple[str, int], ...], ...] = (
    (),
    (),
    tuple(("1g.18gb", number) for number in range(7, 14)),
    (("4g.71gb", 1), ("3g.71gb", 2)),
)
_LOAD, _EPOCH, _EVALUATE, _SAVE = 6.0, 45.0, 5.0, 2.0  # seconds
# Compute level of each phase, and traffic to the GPU in bytes per second.
_LEVELS = {
    "idle": (0.0, 0.0),
    "load": (0.02, 9e8),
    "train": (0.93, 2.4e8),
    "evaluate": (0.61, 5.2e8),
    "save": (0.0, 3.5e7),
}


@dataclass
class Part:
    """Compute device: a MIG instance, or the whole GPU where `gi` is ``None``."""

    profile: str
    gi: int | None
    random: np.random.Generator
    share: float = 1.0
    noise: float = 0.0
    compute: float = 0.0
    traffic: float = 0.0
    used_mib: int = 0
    speed: float = field(init=False)

    def __post_init__(self) -> None:
        self.speed = float(self.random.uniform(0.93, 1.0))

    def tick(self, phase: str, since: float) -> None:
        """Advance the metrics by one second, to `since` seconds after the run's start."""
        level, traffic = _LEVELS[phase]
        self.noise = 0.6 * self.noise + float(self.random.normal(0, 0.012))  # steps overlap the ends of the second
        self.compute = min(max(level * self.speed * (1 + self.noise), 0.0), 1.0) if level else 0.0
        self.traffic = max(traffic * self.share * float(self.random.normal(1, 0.06)), 0.0)
        total = int(_MEMORY_MIB * self.share)
        if phase == "idle":
            self.used_mib = 4
        elif phase == "load":
            self.used_mib = min(
                self.used_mib + int(total * 0.11 * float(self.random.uniform(0.8, 1.1))), int(total * 0.7)
            )
        elif since < 3 * _EPOCH:  # the allocator's cache grows in the first epochs
            self.used_mib = min(self.used_mib + int(self.random.choice([0, 0, 0, 2, 20])), int(total * 0.86))

    @property
    def active(self) -> dict[str, float]:
        """Shares of the second in which its units were active."""
        wobble = self.random.normal(1, 0.008, 6)
        names = ("sm_active", "sm_occupancy", "tensor_active", "memory_active", "fp16_active", "fp32_active")
        levels = (0.91, 0.34, 0.47, 0.38, 0.031, 0.12)
        results = {
            name: min(self.compute * level * float(w), 1.0)
            for name, level, w in zip(names, levels, wobble, strict=True)
        }
        results |= {"graphics_active": min(self.compute * 1.04, 1.0), "fp64_active": 0.0}
        return {name: round(share, 6) for name, share in results.items()}


class SimulatedBoard:
    """GPU and its instances; `tick` advances it by a second."""

    def __init__(self, number: int, profiles: Iterable[tuple[str, int]], random: np.random.Generator) -> None:
        self.number, self._random = number, random
        self.uuid = f"GPU-{number:08x}-5d2c-4c0e-9f3a-{0x7D3E52A41B00 + number:012x}"
        self.parts = [Part(profile, gi, random, share=int(profile[0]) / 8) for profile, gi in profiles] or [
            Part("", None, random)
        ]
        self.power = 76.0
        self.temperature, self.memory_temperature = 29.0, 33.0
        self.clock = 345
        self.energy_mj = int(random.integers(10**11, 10**12))

    @property
    def divided(self) -> bool:
        """Return whether it is in MIG mode."""
        return self.parts[0].gi is not None

    def tick(self, since: float | None) -> None:
        """Advance by one second; `since` are seconds from the run's start, ``None`` without a run."""
        phase = _phase(since)
        for part in self.parts:
            part.tick(phase, since or 0.0)
        compute = sum(part.compute * (part.share if self.divided else 1.0) for part in self.parts)
        drawn = 76.0 + 560.0 * compute + (45.0 if phase != "idle" else 0.0)
        self.power += 0.75 * (drawn - self.power) + float(self._random.normal(0, 0.35 + 5.5 * compute))
        self.power = min(max(self.power, 68.0), 701.0)
        self.temperature += 0.03 * (24 + 0.062 * self.power - self.temperature) + float(self._random.normal(0, 0.05))
        self.memory_temperature += 0.02 * (30 + 0.07 * self.power - self.memory_temperature)
        hot = self.power > 640 and self._random.random() < 0.4
        self.clock = 345 if phase == "idle" else 1980 - 15 * int(self._random.integers(1, 9) if hot else 0)
        self.energy_mj += int(self.power * 1000)

    def sample(self) -> GpuSample:
        """Return its sample, as of NVML."""
        instances = tuple(
            MigInstance(part.gi, f"MIG-{self.number:08x}-0000-4000-8000-{part.gi:012x}", part.profile)
            for part in self.parts
            if part.gi is not None
        )
        throttled = {"sw_power_cap": 345 < self.clock < 1980}
        metrics = {
            "power": int(self.power * 1000) / 1000,
            "power_limit": 700.0,
            "energy": self.energy_mj / 1000,
            "temperature": float(int(self.temperature)),
            "memory_temperature": float(int(self.memory_temperature)),
            "sm_clock": self.clock * 1e6,
            "graphics_clock": self.clock * 1e6,
            "memory_clock": 3201e6,
            "video_clock": 1500e6,
            "performance_state": 0.0,
            **dict.fromkeys(("pcie_replays", "ecc_corrected", "ecc_uncorrected"), 0.0),
            **dict.fromkeys(("remapped_corrected", "remapped_uncorrected", "remap_failure"), 0.0),
        }
        return GpuSample(
            Gpu(self.number, self.uuid, _MODEL, _MEMORY_MIB << 20, instances, mig_enabled=self.divided),
            self.number,
            f"00000000:{self.number + 7:02X}:00.0",
            metrics,
            tuple(
                DeviceSample(instance, self._metrics(part))
                for part, instance in zip(self.parts, instances or (None,), strict=True)
            ),
            throttle=throttled,
            last_xid=0,
            activity="gpm",
        )

    def _metrics(self, part: Part) -> dict[str, float]:
        total = int(_MEMORY_MIB * part.share)
        memory = {"total": total, "used": part.used_mib, "free": total - part.used_mib - 612, "reserved": 612}
        results = {**part.active, **{f"memory_{name}": float(mib << 20) for name, mib in memory.items()}}
        if self.divided:
            return results
        nvlink = 4.1e10 * part.compute if part.compute > 0.05 else 0.0
        return {
            **results,
            "utilization": _percent(part.compute * 1.07) / 100,
            "memory_utilization": _percent(part.compute * 0.41) / 100,
            "encoder_utilization": 0.0,
            "decoder_utilization": 0.0,
            # GPM counts MiB.
            "pcie_receive": float(int(part.traffic) >> 20 << 20),
            "pcie_transmit": float(int(part.traffic * 0.21) >> 20 << 20),
            "nvlink_transmit": float(int(nvlink) >> 20 << 20),
            "nvlink_receive": float(int(nvlink) >> 20 << 20),
        }


class Host:
    """Host with four GPUs, two of them with MIG instances, and its exporters."""

    def __init__(self, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.gpus = [SimulatedBoard(number, profiles, random) for number, profiles in enumerate(INSTANCES)]
        self._at = 0.0
        options = ExporterOptions(Path(tempfile.gettempdir()) / "no home")
        self._nvml = NvmlExporter(options, self)
        self._dcgm = DcgmExporter(options, environment={}, nvml=self, reader=lambda _: self, hostname="node1")

    def tick(self, since: float | None) -> None:
        """Advance by one second; `since` are seconds from the run's start, ``None`` without a run."""
        self._at += 1.0
        for gpu in self.gpus:
            gpu.tick(since)

    def problem(self) -> None:
        """Return ``None``."""

    def read(self) -> Sample:
        """Return a sample of all GPUs."""
        return Sample(self._at, _DRIVER, tuple(gpu.sample() for gpu in self.gpus))

    def close(self) -> None:
        """Do nothing."""

    def nvml(self) -> bytes:
        """Return the exposition of the exporter ``nvml``."""
        return render(self._nvml.collect())

    def dcgm(self) -> bytes:
        """Return the exposition of the exporter ``dcgm``."""
        return render(self._dcgm.collect())


def _phase(since: float | None) -> str:
    if since is None:
        return "idle"
    if since < _LOAD:
        return "load"
    into = math.fmod(since - _LOAD, _EPOCH)
    if into > _EPOCH - _SAVE:
        return "save"
    return "evaluate" if into > _EPOCH - _SAVE - _EVALUATE else "train"


def _percent(share: float) -> int:
    return round(100 * min(share, 1.0))
