"""Bodies as a dcgm-exporter and a listener on NVML give them, moving as GPUs in a training move.

Simulated, since the machine that measures may have no GPU. Names, labels and formats are dcgm-exporter's; levels and noise
are those of an H200 at work: a load phase, steps with noise of some per cent, evaluations, checkpoints with nothing to
compute, clocks that yield to the power limit, temperatures that follow slowly. Nothing is rounded beyond what the
device does: shares have six decimals, power has milliwatts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

__all__ = ["INSTANCES", "Gpu", "Instance", "gpus"]

_MODEL = "NVIDIA H200"
_DRIVER = "575.57"
_MEMORY_MIB = 143_771
# The instances of each GPU, as profile and GPU instance id; none is a whole GPU.
INSTANCES: tuple[tuple[tuple[str, int], ...], ...] = (
    (),
    (),
    tuple(("1g.18gb", number) for number in range(7, 14)),
    (("4g.71gb", 1), ("3g.71gb", 2)),
)
_LOAD, _EPOCH, _EVALUATE, _SAVE = 6.0, 45.0, 5.0, 2.0  # seconds
# Level of compute in each phase, and of traffic to the GPU in bytes a second.
_LEVELS = {
    "idle": (0.0, 0.0),
    "load": (0.02, 9e8),
    "train": (0.93, 2.4e8),
    "evaluate": (0.61, 5.2e8),
    "save": (0.0, 3.5e7),
}


def gpus(seed: int = 0) -> list[Gpu]:
    """Return four GPUs: two whole ones, and two that are divided into nine instances."""
    random = np.random.default_rng(seed)
    return [Gpu(number, profiles, random) for number, profiles in enumerate(INSTANCES)]


@dataclass
class Instance:
    """A MIG instance, or the whole GPU where `gi` is ``None``: what computes by itself."""

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
        """Bring the figures one second on, `since` seconds after the run began."""
        level, traffic = _LEVELS[phase]
        self.noise = 0.6 * self.noise + float(self.random.normal(0, 0.012))  # steps straddle the second's edges
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
        """Shares of the second in which parts of it were active."""
        wobble = self.random.normal(1, 0.008, 6)
        names = (
            "SM_ACTIVE",
            "SM_OCCUPANCY",
            "PIPE_TENSOR_ACTIVE",
            "DRAM_ACTIVE",
            "PIPE_FP16_ACTIVE",
            "PIPE_FP32_ACTIVE",
        )
        levels = (0.91, 0.34, 0.47, 0.38, 0.031, 0.12)
        figures = {
            name: min(self.compute * level * float(w), 1.0)
            for name, level, w in zip(names, levels, wobble, strict=True)
        }
        return {"GR_ENGINE_ACTIVE": min(self.compute * 1.04, 1.0), **figures, "PIPE_FP64_ACTIVE": 0.0}


class Gpu:
    """One GPU and its instances; `tick` brings it a second on, the others render it."""

    def __init__(self, number: int, profiles: Iterable[tuple[str, int]], random: np.random.Generator) -> None:
        self.number, self._random = number, random
        self.uuid = f"GPU-{number:08x}-5d2c-4c0e-9f3a-{0x7D3E52A41B00 + number:012x}"
        self.parts = [Instance(profile, gi, random, share=int(profile[0]) / 8) for profile, gi in profiles] or [
            Instance("", None, random)
        ]
        self.power = 76.0
        self.temperature, self.memory_temperature = 29.0, 33.0
        self.clock = 345
        self.energy_mj = int(random.integers(10**11, 10**12))
        self.nvlink_kib = 0

    @property
    def divided(self) -> bool:
        """Whether it is in MIG mode."""
        return self.parts[0].gi is not None

    def tick(self, since: float | None) -> None:
        """Go on by one second; `since` are seconds from the run's start, ``None`` where nobody runs."""
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
        if not self.divided:
            self.nvlink_kib += int(4.1e7 * compute * float(self._random.normal(1, 0.02))) if compute > 0.05 else 0

    def dcgm(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, labels and figure of each line of a dcgm-exporter."""
        for part in self.parts:
            labels = self._dcgm_labels(part)
            for name, figure in self._device_fields(part):
                yield f"DCGM_FI_DEV_{name}", labels, figure
            for name, share in part.active.items():
                yield f"DCGM_FI_PROF_{name}", labels, f"{share:.6f}"
            if not self.divided:
                yield "DCGM_FI_PROF_PCIE_RX_BYTES", labels, str(int(part.traffic))
                yield "DCGM_FI_PROF_PCIE_TX_BYTES", labels, str(int(part.traffic * 0.21))

    def _device_fields(self, part: Instance) -> Iterator[tuple[str, str]]:
        total = int(_MEMORY_MIB * part.share)
        yield "SM_CLOCK", str(self.clock)
        yield "MEM_CLOCK", "3201"
        yield "MEMORY_TEMP", str(int(self.memory_temperature))
        yield "GPU_TEMP", str(int(self.temperature))
        yield "POWER_USAGE", f"{int(self.power * 1000) / 1000:.6f}"
        yield "TOTAL_ENERGY_CONSUMPTION", str(self.energy_mj)
        yield "PCIE_REPLAY_COUNTER", "0"
        if not self.divided:
            yield "GPU_UTIL", str(_percent(part.compute * 1.07))
            yield "MEM_COPY_UTIL", str(_percent(part.compute * 0.41))
            yield "ENC_UTIL", "0"
            yield "DEC_UTIL", "0"
            yield "NVLINK_BANDWIDTH_TOTAL", str(self.nvlink_kib)
        yield "XID_ERRORS", "0"
        yield "FB_FREE", str(total - part.used_mib - 612)
        yield "FB_USED", str(part.used_mib)
        yield "FB_RESERVED", "612"
        for name in ("UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE"):
            yield name, "0"

    def _dcgm_labels(self, part: Instance) -> str:
        instance = f'GPU_I_PROFILE="{part.profile}",GPU_I_ID="{part.gi}",' if part.gi is not None else ""
        return (
            f'gpu="{self.number}",UUID="{self.uuid}",pci_bus_id="00000000:{self.number + 7:02X}:00.0",'
            f'device="nvidia{self.number}",modelName="{_MODEL}",{instance}Hostname="node1",'
            f'DCGM_FI_DRIVER_VERSION="{_DRIVER}"'
        )

    def nvml(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, labels and figure of each line of a listener on NVML."""
        labels = f'UUID="{self.uuid}",gpu="{self.number}"'
        yield "power_milliwatts", labels, str(int(self.power * 1000))
        yield "energy_millijoules_total", labels, str(self.energy_mj)
        yield "temperature_celsius", labels, str(int(self.temperature))
        yield "memory_temperature_celsius", labels, str(int(self.memory_temperature))
        for clock, figure in (("graphics", self.clock), ("sm", self.clock), ("memory", 3201), ("video", 1500)):
            yield "clock_megahertz", f'{labels},clock="{clock}"', str(figure)
        yield "power_limit_milliwatts", labels, "700000"
        yield "performance_state", labels, "0"
        yield "throttle_reasons", labels, "4" if 345 < self.clock < 1980 else "0" if self.clock > 345 else "1"
        if not self.divided:
            part = self.parts[0]
            yield "utilization_percent", labels, str(_percent(part.compute * 1.07))
            yield "memory_utilization_percent", labels, str(_percent(part.compute * 0.41))
            yield "pcie_receive_kilobytes", labels, str(int(part.traffic / 1000))
            yield "pcie_transmit_kilobytes", labels, str(int(part.traffic * 0.21 / 1000))
        for part in self.parts:
            instance = f',GPU_I_ID="{part.gi}"' if part.gi is not None else ""
            used = part.used_mib * 1_048_576 + 65_536 * (part.used_mib % 13)
            yield "memory_used_bytes", labels + instance, str(used)
            yield "memory_total_bytes", labels + instance, str(int(_MEMORY_MIB * part.share) * 1_048_576)


_COUNTERS = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
}  # fmt: skip


def body(lines: Iterable[tuple[str, str, str]], prefix: str = "") -> bytes:
    """Return lines as a body in Prometheus's text format, one metric after the other."""
    metrics: dict[str, list[str]] = {}
    for name, labels, figure in lines:
        metrics.setdefault(prefix + name, []).append(f"{prefix}{name}{{{labels}}} {figure}")
    text = []
    for name, given in metrics.items():
        kind = "counter" if name in _COUNTERS or name.endswith("_total") else "gauge"
        text += [f"# HELP {name} {name}", f"# TYPE {name} {kind}", *given]
    return "\n".join([*text, ""]).encode()


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
