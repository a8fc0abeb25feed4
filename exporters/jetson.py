"""The exporter ``jetson``: NVIDIA's Jetson boards, which NVML hardly supports.

It reads `tegrastats` where that is installed, else the kernel's files, which containers have too. The GPU's metrics have
the names of ``nvml``; metrics of the rest of the board begin with ``bench_jetson_``.

The energy of the module is split among the host's runs, see `hypergauge.exporters.energy.split`. A Jetson measures power
alone, so the energy is power times the time. Only a rail that feeds the whole module counts.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import Metric

from hypergauge.core.system.kernel_file import read_file
from hypergauge.exporters.energy.run_energy import CpuReader, RunEnergy, energy_helps
from hypergauge.exporters.serving.families import Families, Measurement
from hypergauge.exporters.serving.gpu_helps import GPU_HELPS
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.tool import Tool
from hypergauge.gpu import inventory
from hypergauge.gpu.integrated import integrated_uuid, is_jetson

__all__ = ["JetsonExporter", "parse_line"]

_MIB = 2**20
_IDENTITY = {"UUID": integrated_uuid("jetson")}
_GPU = {**_IDENTITY, "gpu": "0"}
_HELPS = {
    **GPU_HELPS,
    "bench_jetson_temperature_celsius": "Temperature of another part of the board.",
    "bench_jetson_rail_power_watts": "Power of one rail; some rails feed others.",
    "bench_jetson_memory_used_bytes": "Memory in use, shared by CPU and GPU.",
    "bench_jetson_memory_total_bytes": "Size of memory, shared by CPU and GPU.",
    "bench_jetson_memory_controller_utilization_ratio": "Used share of the memory's bandwidth.",
    "bench_jetson_memory_controller_clock_hertz": "Clock of the memory controller.",
    **energy_helps("bench_jetson", "the whole module"),
}
# Input of the whole module: of Orin NX, Orin Nano, Xavier NX, TX2 and TX1, and of Nano. Other modules, such as AGX Orin,
# measure rails of which some feed others, and none is the whole.
_INPUTS = ("VDD_IN", "POM_5V_IN")
# A power value covers at most this time: longer gaps are unknown.
_LONGEST_SECONDS = 60.0
# https://docs.nvidia.com/jetson/archives/r36.4/DeveloperGuide/AT/JetsonLinuxDevelopmentTools/TegrastatsUtility.html;
# the tests hold the formats of older releases.
_RAM = re.compile(r"\bRAM (\d+)/(\d+)MB")
_LOAD = re.compile(r"\b(GR3D|EMC)_FREQ (?:(\d+)%)?(?:@\[?([\d,]+))?")
_TEMPERATURE = re.compile(r"\b(\w+)@(-?[\d.]+)C\b")
_RAIL = re.compile(r"\b([A-Z]\w*) (-?\d+)(?:mW)?/-?\d+(?:mW)?(?!\S)")
_SENSOR_OFF = -200.0  # such a sensor reads -256


class JetsonExporter:
    """Exporter of a Jetson board.

    Parameters
    ----------
    root
        Folder of ``proc`` and ``sys``.
    command
        The command line of `tegrastats`.
    cpu
        Replacement for the reader of CPU times.
    """

    name = "jetson"

    def __init__(
        self,
        options: ExporterOptions,
        root: Path = Path("/"),
        command: tuple[str, ...] = ("tegrastats", "--interval"),
        cpu: CpuReader | None = None,
    ) -> None:
        self._root, self._sys = root, root / "sys"
        self._tool = Tool(*command) if shutil.which(command[0]) else None
        self._runs = RunEnergy(options, "bench_jetson", "rail", cpu)
        self._module = _Module()
        self._uuid: str | None = None

    def check(self) -> str | None:
        """Return the reason why nothing can be read: no Jetson, or a container without sensors."""
        if not is_jetson(self._root):
            return "this host is no NVIDIA Jetson: /proc/device-tree/compatible names no Tegra"
        if self._tool is None and not any(self._files()):
            return "tegrastats is not installed, and the kernel's files in /sys show no GPU and no sensors"
        return None

    def collect(self) -> Iterable[Metric]:
        """Read the board once.

        Raises
        ------
        ChildProcessError, TimeoutError
            `tegrastats` has ended or prints nothing, see `Tool.line`.
        """
        read = list(self._files() if self._tool is None else parse_line(self._tool.line()))
        for metric, labels, watts in read:
            if metric == "bench_jetson_rail_power_watts" and labels["rail"] in _INPUTS and watts is not None:
                self._module.add(labels["rail"], watts)
        return Families(_HELPS, [*self._identified(read), *self._runs.update(self._module.joules)])

    def close(self) -> None:
        """End `tegrastats`."""
        if self._tool is not None:
            self._tool.close()

    def _identified(self, measured: Iterable[Measurement]) -> Iterator[Measurement]:
        """Give the GPU the UUID that NVML lists, on the boards where it does: runs are placed there."""
        if self._uuid is None:
            gpus = inventory(root=self._root).gpus
            self._uuid = gpus[0].uuid if len(gpus) == 1 else integrated_uuid("jetson")
        for name, labels, value in measured:
            yield name, {**labels, "UUID": self._uuid} if "UUID" in labels else labels, value

    def _files(self) -> Iterator[Measurement]:
        for device in sorted(self._sys.glob("class/devfreq/*")):
            if load := read_file(device / "device/load"):  # other devices have none
                yield "bench_gpu_utilization_ratio", _GPU, int(load) / 1000
                if clock := read_file(device / "cur_freq"):
                    yield "bench_gpu_clock_hertz", {**_GPU, "clock": "sm"}, int(clock)
        for zone in sorted(self._sys.glob("class/thermal/thermal_zone*")):
            if temperature := read_file(zone / "temp"):  # not readable of a sensor that is off
                kind = re.sub(r"[-_](therm(al)?|die|tegra)$", "", read_file(zone / "type").lower())
                yield from _temperature(kind, int(temperature) / 1000)
        for label in sorted(self._sys.glob("bus/i2c/drivers/ina3221*/*/hwmon/hwmon*/in*_label")):
            number = label.name.removeprefix("in").removesuffix("_label")
            volts, amperes = (read_file(label.with_name(f"{kind}{number}_input")) for kind in ("in", "curr"))
            if volts and amperes:
                yield from _rail(read_file(label), int(volts) * int(amperes) / 1e6)
        for label in sorted(self._sys.glob("bus/i2c/drivers/ina3221*/*/iio:device*/rail_name_*")):  # before JetPack 5
            number = label.name.removeprefix("rail_name_")
            if milliwatts := read_file(label.with_name(f"in_power{number}_input")):
                yield from _rail(read_file(label), int(milliwatts) / 1000)


class _Module:
    """Energy of the module since the first reading, by the rail of its input, in joules."""

    def __init__(self) -> None:
        self.joules: dict[str, float] = {}
        self._time = 0.0

    def add(self, rail: str, watts: float) -> None:
        """Add the energy since the last reading at the power of now."""
        now = time.monotonic()
        seconds = min(now - self._time, _LONGEST_SECONDS) if rail in self.joules else 0.0
        self.joules[rail] = self.joules.get(rail, 0.0) + max(watts, 0.0) * seconds
        self._time = now


def parse_line(line: str) -> Iterator[Measurement]:
    """Yield the values in a line of `tegrastats`, in SI units."""
    if memory := _RAM.search(line):
        for kind, mebibytes in zip(("used", "total"), memory.groups(), strict=True):
            yield f"bench_jetson_memory_{kind}_bytes", {}, int(mebibytes) * _MIB
    for unit, percent, clocks in _LOAD.findall(line):
        # One clock for each cluster of the GPU, 0 for one that is off.
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


def _temperature(zone: str, celsius: float) -> Iterator[Measurement]:
    # The PMIC reports no measurement, but one of two values: above or below its limit.
    if celsius <= _SENSOR_OFF or zone == "pmic":
        return
    if zone == "gpu":
        yield "bench_gpu_temperature_celsius", _GPU, celsius
    else:
        yield "bench_jetson_temperature_celsius", {"zone": zone}, celsius


def _rail(rail: str, watts: float) -> Iterator[Measurement]:
    if rail and rail != "NC" and not rail.startswith("sum of"):  # not connected
        yield "bench_jetson_rail_power_watts", {"rail": rail, **(_IDENTITY if "GPU" in rail else {})}, watts
