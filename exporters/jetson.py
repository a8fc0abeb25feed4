"""The exporter ``jetson``: NVIDIA's Jetson boards, about which NVML knows little.

The figures are `tegrastats`'s where it is installed, else those of the kernel's files, which containers have too. Of a GPU
they have the names that ``nvml`` gives others'; what only these boards have is called ``bench_jetson_``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import Metric

from hypergauge.exporters.serving.figures import Figure, families
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.tool import Tool

__all__ = ["JetsonExporter", "parse_line"]

_MIB = 2**20
_GPU = {"gpu": "0"}
_HELPS = {
    "bench_gpu_utilization_ratio": "Share of time in which a kernel ran.",
    "bench_gpu_clock_hertz": "Clocks of the GPU.",
    "bench_gpu_temperature_celsius": "Temperature of the GPU.",
    "bench_jetson_temperature_celsius": "Temperature of another part of the board.",
    "bench_jetson_rail_power_watts": "Power of one rail; some rails feed others.",
    "bench_jetson_memory_used_bytes": "Memory in use, which CPU and GPU share.",
    "bench_jetson_memory_total_bytes": "Memory there is, which CPU and GPU share.",
    "bench_jetson_memory_controller_utilization_ratio": "Share of the memory's bandwidth that was used.",
    "bench_jetson_memory_controller_clock_hertz": "Clock of the memory controller.",
}
# https://docs.nvidia.com/jetson/archives/r36.4/DeveloperGuide/AT/JetsonLinuxDevelopmentTools/TegrastatsUtility.html; the
# forms of older releases are in the tests.
_RAM = re.compile(r"\bRAM (\d+)/(\d+)MB")
_LOAD = re.compile(r"\b(GR3D|EMC)_FREQ (?:(\d+)%)?(?:@\[?([\d,]+))?")
_TEMPERATURE = re.compile(r"\b(\w+)@(-?[\d.]+)C\b")
_RAIL = re.compile(r"\b([A-Z]\w*) (-?\d+)(?:mW)?/-?\d+(?:mW)?(?!\S)")
_SENSOR_IS_OFF = -200.0  # it says -256


class JetsonExporter:
    """Reads the board; what a model does not have is left out.

    Parameters
    ----------
    options
        Nothing of them is needed.
    root
        Folder under which ``proc`` and ``sys`` are read.
    command
        The tool to run, where it is installed.
    """

    name = "jetson"

    def __init__(
        self,
        options: ExporterOptions,  # noqa: ARG002
        root: Path = Path("/"),
        command: tuple[str, ...] = ("tegrastats", "--interval", "1000"),
    ) -> None:
        self._root, self._sys = root, root / "sys"
        self._tool = Tool(*command) if shutil.which(command[0]) else None

    def check(self) -> str | None:
        """Return why there is nothing to read: it is no Jetson, or a container of one that shows nothing."""
        if "nvidia,tegra" not in _read(self._root / "proc/device-tree/compatible"):
            return "this host is no NVIDIA Jetson: /proc/device-tree/compatible names no Tegra"
        if self._tool is None and not any(self._files()):
            return "tegrastats is not installed, and the kernel's files in /sys show no GPU and no sensors"
        return None

    def collect(self) -> Iterator[Metric]:
        """Read the board once.

        Raises
        ------
        ChildProcessError, TimeoutError
            `tegrastats` has ended or says nothing, see `Tool.line`.
        """
        return families(self._files() if self._tool is None else parse_line(self._tool.line()), _HELPS)

    def close(self) -> None:
        """End `tegrastats`."""
        if self._tool is not None:
            self._tool.close()

    def _files(self) -> Iterator[Figure]:
        for device in sorted(self._sys.glob("class/devfreq/*")):
            if load := _read(device / "device/load"):  # other devices have none
                yield "bench_gpu_utilization_ratio", _GPU, int(load) / 1000
                if clock := _read(device / "cur_freq"):
                    yield "bench_gpu_clock_hertz", {**_GPU, "clock": "sm"}, int(clock)
        for zone in sorted(self._sys.glob("class/thermal/thermal_zone*")):
            if temperature := _read(zone / "temp"):  # of sensors that are off it cannot be read
                kind = re.sub(r"[-_](therm(al)?|die|tegra)$", "", _read(zone / "type").lower())
                yield from _temperature(kind, int(temperature) / 1000)
        for label in sorted(self._sys.glob("bus/i2c/drivers/ina3221*/*/hwmon/hwmon*/in*_label")):
            number = label.name.removeprefix("in").removesuffix("_label")
            volts, amperes = (_read(label.with_name(f"{kind}{number}_input")) for kind in ("in", "curr"))
            if volts and amperes:
                yield from _rail(_read(label), int(volts) * int(amperes) / 1e6)
        for label in sorted(self._sys.glob("bus/i2c/drivers/ina3221*/*/iio:device*/rail_name_*")):  # before JetPack 5
            number = label.name.removeprefix("rail_name_")
            if milliwatts := _read(label.with_name(f"in_power{number}_input")):
                yield from _rail(_read(label), int(milliwatts) / 1000)


def parse_line(line: str) -> Iterator[Figure]:
    """Yield what a line of `tegrastats` says, in SI units."""
    if memory := _RAM.search(line):
        for kind, mebibytes in zip(("used", "total"), memory.groups(), strict=True):
            yield f"bench_jetson_memory_{kind}_bytes", {}, int(mebibytes) * _MIB
    for unit, percent, clocks in _LOAD.findall(line):
        # The GPU's clusters have one each, 0 where one is off.
        hertz = max((int(clock) * 1e6 for clock in clocks.split(",") if clock), default=None)
        ratio = int(percent) / 100 if percent else None
        if unit == "GR3D":
            yield "bench_gpu_utilization_ratio", _GPU, ratio
            yield "bench_gpu_clock_hertz", {**_GPU, "clock": "sm"}, hertz
        else:
            yield "bench_jetson_memory_controller_utilization_ratio", {}, ratio
            yield "bench_jetson_memory_controller_clock_hertz", {}, hertz
    for zone, celsius in _TEMPERATURE.findall(line):
        yield from _temperature(zone.lower(), float(celsius))
    for rail, milliwatts in _RAIL.findall(line):
        yield from _rail(rail, int(milliwatts) / 1000)


def _temperature(zone: str, celsius: float) -> Iterator[Figure]:
    # The PMIC's is no measurement but one of two figures, above or below its limit.
    if celsius <= _SENSOR_IS_OFF or zone == "pmic":
        return
    if zone == "gpu":
        yield "bench_gpu_temperature_celsius", _GPU, celsius
    else:
        yield "bench_jetson_temperature_celsius", {"zone": zone}, celsius


def _rail(rail: str, watts: float) -> Iterator[Figure]:
    if rail and rail != "NC" and not rail.startswith("sum of"):  # not connected
        yield "bench_jetson_rail_power_watts", {"rail": rail}, watts


def _read(path: Path) -> str:
    """Return the file's text, empty where there is none or it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
