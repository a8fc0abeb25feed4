"""The exporter ``apple``: Apple silicon through `macmon`, which reads the counters of `powermetrics` without root.

The GPU's metrics have the names of ``nvml``; metrics of the rest of the machine begin with ``bench_apple_``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from hypergauge.exporters.serving.families import Families, Measurement
from hypergauge.exporters.serving.gpu_helps import GPU_HELPS
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.tool import Tool
from hypergauge.gpu.integrated import integrated_uuid

__all__ = ["AppleExporter", "parse_line"]

_GPU = {"UUID": integrated_uuid("apple"), "gpu": "0"}
_HELPS = {
    **GPU_HELPS,
    "bench_gpu_power_watts": "Power of the GPU.",
    "bench_apple_power_watts": "Power of one part of the machine; package is CPU, GPU and ANE, system is the whole machine.",
    "bench_apple_cpu_utilization_ratio": "Share of time in which the cluster's cores were busy, mean over them.",
    "bench_apple_cpu_clock_hertz": "Clock of the cluster's cores.",
    "bench_apple_cpu_temperature_celsius": "Temperature of the CPU, mean of its sensors.",
    "bench_apple_memory_used_bytes": "Memory in use, shared by CPU and GPU.",
    "bench_apple_memory_total_bytes": "Size of memory, shared by CPU and GPU.",
    "bench_apple_swap_used_bytes": "Swap in use.",
    "bench_apple_swap_total_bytes": "Size of swap.",
    "bench_apple_fan_speed_hertz": "Rotations of a fan per second.",
}
_PARTS = {"cpu": "cpu", "ane": "ane", "ram": "memory", "gpu_ram": "gpu_memory", "all": "package", "sys": "system"}
_CLUSTERS = {"ecpu": "efficiency", "pcpu": "performance"}


class AppleExporter:
    """Exporter of a machine with Apple silicon.

    Parameters
    ----------
    options
        Unused.
    command
        The command line of `macmon`.
    """

    name = "apple"

    def __init__(
        self,
        options: ExporterOptions,  # noqa: ARG002
        command: tuple[str, ...] = ("macmon", "pipe", "--interval"),
    ) -> None:
        self._command = command
        self._tool = Tool(*command)

    def check(self) -> str | None:
        """Return the reason where `macmon` is not installed."""
        if shutil.which(self._command[0]) is None:
            return "macmon is not installed, which measures only Apple silicon: `brew install macmon`"
        return None

    def collect(self) -> Iterable[Metric]:
        """Read the machine once.

        Raises
        ------
        ChildProcessError, TimeoutError
            `macmon` has ended or prints nothing, see `Tool.line`.
        ValueError
            A line is no JSON object.
        """
        return Families(_HELPS, parse_line(self._tool.line()))

    def close(self) -> None:
        """End `macmon`."""
        self._tool.close()


def parse_line(line: str) -> Iterator[Measurement]:
    """Yield the values in a line of `macmon pipe`, in SI units.

    Raises
    ------
    ValueError
        The line is no JSON object.
    """
    document = json.loads(line)
    if not isinstance(document, dict):
        raise ValueError(f"macmon printed no JSON object: {line[:60]!r}")
    ratio, hertz = _unit(document, "gpu")
    yield "bench_gpu_utilization_ratio", _GPU, ratio
    yield "bench_gpu_clock_hertz", {**_GPU, "clock": "sm"}, hertz
    yield "bench_gpu_power_watts", _GPU, _number(document, "gpu_power")
    celsius = _inner(document, "temp")
    yield "bench_gpu_temperature_celsius", _GPU, _number(celsius, "gpu_temp_avg") or None  # 0 where no sensor is known
    for key, part in _PARTS.items():
        yield "bench_apple_power_watts", {"part": part}, _number(document, f"{key}_power")
    for unit, cluster in _CLUSTERS.items():
        ratio, hertz = _unit(document, unit)
        yield "bench_apple_cpu_utilization_ratio", {"cluster": cluster}, ratio
        yield "bench_apple_cpu_clock_hertz", {"cluster": cluster}, hertz
    yield "bench_apple_cpu_temperature_celsius", {}, _number(celsius, "cpu_temp_avg") or None
    memory = _inner(document, "memory")
    for key, kind in (("ram", "memory"), ("swap", "swap")):
        yield f"bench_apple_{kind}_used_bytes", {}, _number(memory, f"{key}_usage")
        yield f"bench_apple_{kind}_total_bytes", {}, _number(memory, f"{key}_total")
    for fan in document.get("fans") or ():
        rpm = _number(fan, "rpm")
        yield "bench_apple_fan_speed_hertz", {"fan": str(fan.get("name"))}, None if rpm is None else rpm / 60


def _unit(document: Mapping[str, Any], unit: str) -> tuple[float | None, float | None]:
    """Return the share of time in which a unit was busy, and its clock in hertz.

    Before macmon 0.8 a list holds the clock, and a share that is weighted by the clock.
    """
    before = document.get(f"{unit}_usage")
    before = dict(zip(("clock", "ratio"), before, strict=False)) if isinstance(before, list) else {}
    ratio, megahertz = _number(document, f"{unit}_active_ratio"), _number(document, f"{unit}_freq_mhz")
    ratio = _number(before, "ratio") if ratio is None else ratio
    megahertz = _number(before, "clock") if megahertz is None else megahertz
    return ratio, None if megahertz is None else megahertz * 1e6


def _inner(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = document.get(key)
    return inner if isinstance(inner, dict) else {}


def _number(document: Mapping[str, Any], key: str) -> float | None:
    value = document.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
