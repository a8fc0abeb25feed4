"""The exporter ``host``: CPU, memory, disks, network and pressure with node_exporter's names and labels."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hypergauge.exporters.host.virtual_devices import virtual_devices
from hypergauge.exporters.serving.registry import ExporterOptions

__all__ = ["HostExporter"]

# In the order of /proc/stat, see proc(5).
_CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_TICKS = os.sysconf("SC_CLK_TCK")
_SECTOR = 512  # bytes, whatever the device has: https://docs.kernel.org/admin-guide/iostats.html
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
        Folder under which ``proc`` and ``sys`` are read.
    """

    name = "host"

    def __init__(self, options: ExporterOptions, root: Path = Path("/")) -> None:  # noqa: ARG002
        self._proc, self._classes = root / "proc", root / "sys/class"
        self._cpu_seconds: dict[tuple[str, str], float] = {}

    def check(self) -> str | None:
        """Return ``None``: every host has some of the figures."""
        return None

    def collect(self) -> Iterator[Metric]:
        """Read everything once."""
        yield from self._stat()
        for minutes, load in zip((1, 5, 15), os.getloadavg(), strict=True):
            yield GaugeMetricFamily(f"node_load{minutes}", f"{minutes}m load average.", load)
        yield from self._memory()
        yield from self._disks()
        yield from self._network()
        yield from self._pressure()
        yield GaugeMetricFamily("node_time_seconds", "System time in seconds since epoch (1970).", time.time())

    def _stat(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "node_cpu_seconds_total", "Seconds the CPUs spent in each mode.", labels=["cpu", "mode"]
        )
        for line in _read(self._proc / "stat").splitlines():
            name, _, figures = line.partition(" ")
            if name == "btime":
                yield GaugeMetricFamily("node_boot_time_seconds", "Node boot time, in unixtime.", int(figures))
            elif name.startswith("cpu") and (number := name[3:]):
                for mode, ticks in zip(_CPU_MODES, figures.split(), strict=False):
                    family.add_metric([number, mode], self._never_back(number, mode, int(ticks) / _TICKS))
        if family.samples:
            yield family

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

    def _disks(self) -> Iterator[Metric]:
        read = _per_device("node_disk_read_bytes_total", "The total number of bytes read successfully.")
        written = _per_device("node_disk_written_bytes_total", "The total number of bytes written successfully.")
        busy = _per_device("node_disk_io_time_seconds_total", "Total seconds spent doing I/Os.")
        found: dict[str, list[str]] = {}
        for line in _read(self._proc / "diskstats").splitlines():
            # After the device's name: reads and writes in fours (done, merged, sectors, milliseconds), what is under
            # way, milliseconds with something under way.
            _, _, device, *figures = line.split()
            if not _IGNORED_DISKS.fullmatch(device):
                found[device] = figures
        virtual = virtual_devices(self._classes / "block", found)
        for device, figures in found.items():
            _add(read, device, int(figures[2]) * _SECTOR, virtual)
            _add(written, device, int(figures[6]) * _SECTOR, virtual)
            _add(busy, device, int(figures[9]) / 1000, virtual)
        yield from _filled(read, written, busy)

    def _network(self) -> Iterator[Metric]:
        received = _per_device("node_network_receive_bytes_total", "Network device statistic receive_bytes.")
        sent = _per_device("node_network_transmit_bytes_total", "Network device statistic transmit_bytes.")
        found: dict[str, list[str]] = {}
        for line in _read(self._proc / "net/dev").splitlines()[2:]:  # two lines of headings
            device, _, figures = line.rpartition(":")  # a device's alias holds a colon itself
            found[device.strip()] = figures.split()
        virtual = virtual_devices(self._classes / "net", found)
        for device, columns in found.items():
            _add(received, device, int(columns[0]), virtual)
            _add(sent, device, int(columns[8]), virtual)
        yield from _filled(received, sent)

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


def _per_device(name: str, help_text: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, help_text, labels=["device"])


def _add(family: CounterMetricFamily, device: str, value: float, virtual: Container[str]) -> None:
    """Add a device's figure; one that stands on others has a label that node_exporter has not, so that it is not added to them."""
    further = {"virtual": "true"} if device in virtual else {}
    family.add_sample(f"{family.name}_total", {"device": device, **further}, value)


def _filled(*families: CounterMetricFamily) -> Iterable[Metric]:
    return [family for family in families if family.samples]


def _read(path: Path) -> str:
    """Return the file's text, empty where there is none or the kernel does not tell."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
