"""The exporter ``apple``: Apple silicon through `macmon`, which reads what `powermetrics` does without root.

Of the GPU the figures have the names that ``nvml`` gives others'; what only these machines have is called ``bench_apple_``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from hypergauge.exporters.serving.figures import Figure, families
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.tool import Tool

__all__ = ["AppleExporter", "parse_line"]

_GPU = {"gpu": "0"}
_HELPS = {
    "bench_gpu_utilization_ratio": "Share of time in which a kernel ran.",
    "bench_gpu_clock_hertz": "Clocks of the GPU.",
    "bench_gpu_power_watts": "Power of the GPU.",
    "bench_gpu_temperature_celsius": "Temperature of the GPU.",
    "bench_apple_power_watts": "Power of one part of the machine; package is CPU, GPU and ANE, system is everything.",
    "bench_apple_cpu_utilization_ratio": "Share of time in which the cluster's cores worked, mean over them.",
    "bench_apple_cpu_clock_hertz": "Clock of the cluster's cores.",
    "bench_apple_cpu_temperature_celsius": "Temperature of the CPU, mean of its sensors.",
    "bench_apple_memory_used_bytes": "Memory in use, which CPU and GPU share.",
    "bench_apple_memory_total_bytes": "Memory there is, which CPU and GPU share.",
    "bench_apple_swap_used_bytes": "Swap in use.",
    "bench_apple_swap_total_bytes": "Swap there is.",
    "bench_apple_fan_speed_hertz": "Turns of a fan in a second.",
}
_PARTS = {"cpu": "cpu", "ane": "ane", "ram": "memory", "gpu_ram": "gpu_memory", "all": "package", "sys": "system"}
_CLUSTERS = {"ecpu": "efficiency", "pcpu": "performance"}


class AppleExporter:
    """Reads the machine; what a model does not have is left out.

    Parameters
    ----------
    options
        Nothing of them is needed.
    command
        The tool to run.
    """

    name = "apple"

    def __init__(
        self,
        options: ExporterOptions,  # noqa: ARG002
        command: tuple[str, ...] = ("macmon", "pipe", "--interval", "1000"),
    ) -> None:
        self._command = command
        self._tool = Tool(*command)

    def check(self) -> str | None:
        """Return why there is nothing to read: the tool is not installed."""
        if shutil.which(self._command[0]) is None:
            return "macmon is not installed, which measures Apple silicon and nothing else: `brew install macmon`"
        return None

    def collect(self) -> Iterator[Metric]:
        """Read the machine once.

        Raises
        ------
        ChildProcessError, TimeoutError
            `macmon` has ended or says nothing, see `Tool.line`.
        ValueError
            It says something else than an object in JSON.
        """
        return families(parse_line(self._tool.line()), _HELPS)

    def close(self) -> None:
        """End `macmon`."""
        self._tool.close()


def parse_line(line: str) -> Iterator[Figure]:
    """Yield what a line of `macmon pipe` says, in SI units.

    Raises
    ------
    ValueError
        It is no object in JSON.
    """
    said = json.loads(line)
    if not isinstance(said, dict):
        raise ValueError(f"macmon says no object: {line[:60]!r}")
    ratio, hertz = _unit(said, "gpu")
    yield "bench_gpu_utilization_ratio", _GPU, ratio
    yield "bench_gpu_clock_hertz", {**_GPU, "clock": "sm"}, hertz
    yield "bench_gpu_power_watts", _GPU, _number(said, "gpu_power")
    celsius = _inner(said, "temp")
    yield "bench_gpu_temperature_celsius", _GPU, _number(celsius, "gpu_temp_avg") or None  # 0 where no sensor is known
    for key, part in _PARTS.items():
        yield "bench_apple_power_watts", {"part": part}, _number(said, f"{key}_power")
    for unit, cluster in _CLUSTERS.items():
        ratio, hertz = _unit(said, unit)
        yield "bench_apple_cpu_utilization_ratio", {"cluster": cluster}, ratio
        yield "bench_apple_cpu_clock_hertz", {"cluster": cluster}, hertz
    yield "bench_apple_cpu_temperature_celsius", {}, _number(celsius, "cpu_temp_avg") or None
    memory = _inner(said, "memory")
    for key, kind in (("ram", "memory"), ("swap", "swap")):
        yield f"bench_apple_{kind}_used_bytes", {}, _number(memory, f"{key}_usage")
        yield f"bench_apple_{kind}_total_bytes", {}, _number(memory, f"{key}_total")
    for fan in said.get("fans") or ():
        rpm = _number(fan, "rpm")
        yield "bench_apple_fan_speed_hertz", {"fan": str(fan.get("name"))}, None if rpm is None else rpm / 60


def _unit(said: Mapping[str, Any], unit: str) -> tuple[float | None, float | None]:
    """Return the share of time in which a unit worked, and its clock in hertz.

    Before macmon 0.8 there is only a list of the clock and of a share that counts work at a low clock for less.
    """
    before = said.get(f"{unit}_usage")
    before = dict(zip(("clock", "ratio"), before, strict=False)) if isinstance(before, list) else {}
    ratio, megahertz = _number(said, f"{unit}_active_ratio"), _number(said, f"{unit}_freq_mhz")
    ratio = _number(before, "ratio") if ratio is None else ratio
    megahertz = _number(before, "clock") if megahertz is None else megahertz
    return ratio, None if megahertz is None else megahertz * 1e6


def _inner(said: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = said.get(key)
    return inner if isinstance(inner, dict) else {}


def _number(said: Mapping[str, Any], key: str) -> float | None:
    value = said.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
