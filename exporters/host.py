"""The listener ``host``: CPU, memory, disks, network, pressure and energy under node_exporter's names and labels.

It differs from node_exporter in two things: a package's energy does not wrap around, and the second door to the same
energy counter (``intel-rapl-mmio``) is left out, so that a sum over the series is the host's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from exporters.registry import ExporterOptions

__all__ = ["HostExporter"]

_CPU_MODES = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")
# A CPU that was offline counts from 0 again; less than that is the kernel's idle accounting going back a little.
_CPU_RESTART_SECONDS = 3.0
_MEMORY = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree")
# node_exporter's own default: partitions and devices that exist only in memory.
_IGNORED_DISKS = re.compile(r"(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+")
_PRESSURE = {
    ("cpu", "some"): ("cpu_waiting", "processes waited for a CPU"),
    ("io", "some"): ("io_waiting", "processes waited for I/O"),
    ("io", "full"): ("io_stalled", "no process could go on because of I/O"),
    ("memory", "some"): ("memory_waiting", "processes waited for memory"),
    ("memory", "full"): ("memory_stalled", "no process could go on because of memory"),
}


class HostExporter:
    """Reads the host's figures; what it does not have is left out.

    Parameters
    ----------
    options
        Nothing of them is needed.
    root
        Folder under which ``proc`` and ``sys`` are read, where psutil does not read them.
    """

    name = "host"

    def __init__(self, options: ExporterOptions, root: Path = Path("/")) -> None:  # noqa: ARG002
        self._proc, self._sys = root / "proc", root / "sys"
        self._cpu_seconds: dict[tuple[str, str], float] = {}
        self._zones = [_RaplZone(path) for path in sorted(self._sys.glob("class/powercap/intel-rapl:*"))]

    def check(self) -> str | None:
        """Return ``None``: every host has some of the figures."""
        return None

    def collect(self) -> Iterator[Metric]:
        """Read everything once."""
        yield self._cpus()
        for minutes, load in zip((1, 5, 15), psutil.getloadavg(), strict=True):
            yield GaugeMetricFamily(f"node_load{minutes}", f"{minutes}m load average.", load)
        yield from self._memory()
        yield from _disks()
        yield from _network()
        yield from self._pressure()
        yield from self._energy()
        yield GaugeMetricFamily("node_boot_time_seconds", "Node boot time, in unixtime.", psutil.boot_time())
        yield GaugeMetricFamily("node_time_seconds", "System time in seconds since epoch (1970).", time.time())

    def _cpus(self) -> Metric:
        family = CounterMetricFamily(
            "node_cpu_seconds_total", "Seconds the CPUs spent in each mode.", labels=["cpu", "mode"]
        )
        cpus = psutil.cpu_times(percpu=True)
        numbers = _numbers(_read(self._sys / "devices/system/cpu/online"))
        if len(numbers) != len(cpus):  # a container may be shown fewer
            numbers = [str(index) for index in range(len(cpus))]
        for number, times in zip(numbers, cpus, strict=True):
            for mode in _CPU_MODES:
                if (seconds := getattr(times, mode, None)) is not None:
                    family.add_metric([number, mode], self._never_back(number, mode, seconds))
        return family

    def _never_back(self, cpu: str, mode: str, seconds: float) -> float:
        last = self._cpu_seconds.get((cpu, mode), 0.0)
        if last - _CPU_RESTART_SECONDS < seconds < last:
            return last
        self._cpu_seconds[cpu, mode] = seconds
        return seconds

    def _memory(self) -> Iterator[Metric]:
        # psutil adds reclaimable slabs to Cached, which node_exporter does not.
        lines = dict(line.split(":", 1) for line in _read(self._proc / "meminfo").splitlines() if ":" in line)
        for name in _MEMORY:
            if name in lines:
                kibibytes = int(lines[name].split()[0])
                yield GaugeMetricFamily(
                    f"node_memory_{name}_bytes", f"Memory information field {name}_bytes.", kibibytes * 1024
                )

    def _pressure(self) -> Iterator[Metric]:
        for resource in ("cpu", "io", "memory"):
            for line in _read(self._proc / "pressure" / resource).splitlines():
                share, _, fields = line.partition(" ")
                if known := _PRESSURE.get((resource, share)):
                    name, help_text = known
                    seconds = int(fields.rpartition("total=")[2]) / 1e6
                    yield CounterMetricFamily(
                        f"node_pressure_{name}_seconds_total", f"Total time in seconds that {help_text}.", seconds
                    )

    def _energy(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "node_rapl_package_joules_total", "Current RAPL package value in joules.", labels=["index", "path"]
        )
        for zone in self._zones:
            if zone.package is not None and (joules := zone.joules()) is not None:
                family.add_metric([zone.package, str(zone.path)], joules)
        if family.samples:
            yield family


class _RaplZone:
    """One energy counter, https://docs.kernel.org/power/powercap/powercap.html; most hosts let only root read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        name = re.fullmatch(r"package-(\d+)", _read(path / "name").strip())
        self.package = name and name[1]
        self._wraps_at = int(_read(path / "max_energy_range_uj").strip() or 0)
        self._last = self._wrapped = 0

    def joules(self) -> float | None:
        """Return what was used since the counter began, ``None`` where it may not be read."""
        text = _read(self.path / "energy_uj").strip()
        if not text:
            return None
        microjoules = int(text)
        if microjoules < self._last:
            self._wrapped += self._wraps_at
        self._last = microjoules
        return (self._wrapped + microjoules) / 1e6


def _disks() -> Iterator[Metric]:
    read = _per_device("node_disk_read_bytes_total", "The total number of bytes read successfully.")
    written = _per_device("node_disk_written_bytes_total", "The total number of bytes written successfully.")
    busy = _per_device("node_disk_io_time_seconds_total", "Total seconds spent doing I/Os.")
    try:
        disks = psutil.disk_io_counters(perdisk=True)
    except NotImplementedError:  # a container that is shown no disks
        return
    for device, figures in disks.items():
        if not _IGNORED_DISKS.fullmatch(device):
            read.add_metric([device], figures.read_bytes)
            written.add_metric([device], figures.write_bytes)
            if (milliseconds := getattr(figures, "busy_time", None)) is not None:
                busy.add_metric([device], milliseconds / 1000)
    yield from (read, written, busy)


def _network() -> Iterator[Metric]:
    received = _per_device("node_network_receive_bytes_total", "Network device statistic receive_bytes.")
    sent = _per_device("node_network_transmit_bytes_total", "Network device statistic transmit_bytes.")
    for device, figures in psutil.net_io_counters(pernic=True).items():
        received.add_metric([device], figures.bytes_recv)
        sent.add_metric([device], figures.bytes_sent)
    yield from (received, sent)


def _per_device(name: str, help_text: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, help_text, labels=["device"])


def _read(path: Path) -> str:
    """Return the file's text, empty where there is none or the kernel does not tell."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _numbers(ranges: str) -> list[str]:
    """Expand the kernel's list form, ``0-2,5`` to 0, 1, 2, 5."""
    numbers = []
    for part in ranges.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers += [str(number) for number in range(int(first), int(last or first) + 1)]
    return numbers
