"""The exporter ``host``: CPU, memory, disks, network and pressure with node_exporter's names and labels.

On clusters also NFS, Lustre, InfiniBand and RoCE.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from prometheus_client.core import Metric

from hypergauge.core.system.kernel_file import read_file
from hypergauge.exporters.host.infiniband import INFINIBAND_HELPS, infiniband_ports
from hypergauge.exporters.host.lustre import LUSTRE_HELPS, lustre_mounts
from hypergauge.exporters.host.nfs import NFS_HELPS, nfs_mounts
from hypergauge.exporters.host.rare_source import RareSource
from hypergauge.exporters.host.virtual_devices import virtual_devices
from hypergauge.exporters.serving.families import Families, Measurement
from hypergauge.exporters.serving.registry import ExporterOptions

__all__ = ["HostExporter"]

# In the order of /proc/stat, see proc(5).
_CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_TICKS = os.sysconf("SC_CLK_TCK")
_SECTOR = 512  # bytes, whatever the device has: https://docs.kernel.org/admin-guide/iostats.html
# A CPU that was offline restarts at 0. A smaller step back is the kernel's idle accounting.
_CPU_RESTART_SECONDS = 3.0
_MEMORY = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree")
# node_exporter's own default: partitions and devices that exist only in memory.
_IGNORED_DISKS = re.compile(r"(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+")
_PRESSURE = {
    ("cpu", "some"): ("cpu_waiting", "processes waited for a CPU"),
    ("io", "some"): ("io_waiting", "processes waited for I/O"),
    ("io", "full"): ("io_stalled", "no process could run because of I/O"),
    ("memory", "some"): ("memory_waiting", "processes waited for memory"),
    ("memory", "full"): ("memory_stalled", "no process could run because of memory"),
}
# By metric, the column of the device's line, and the multiplier and divisor to the base unit.
_DISK_COLUMNS = {
    "node_disk_read_bytes_total": (2, _SECTOR, 1),
    "node_disk_written_bytes_total": (6, _SECTOR, 1),
    "node_disk_io_time_seconds_total": (9, 1, 1000),
}
_NETWORK_COLUMNS = {"node_network_receive_bytes_total": (0, 1, 1), "node_network_transmit_bytes_total": (8, 1, 1)}
_HELPS = {
    "node_boot_time_seconds": "Node boot time, in unixtime.",
    "node_cpu_seconds_total": "Seconds the CPUs spent in each mode.",
    **{f"node_load{minutes}": f"{minutes}m load average." for minutes in (1, 5, 15)},
    **{f"node_memory_{name}_bytes": f"Memory information field {name}_bytes." for name in _MEMORY},
    "node_disk_read_bytes_total": "The total number of bytes read successfully.",
    "node_disk_written_bytes_total": "The total number of bytes written successfully.",
    "node_disk_io_time_seconds_total": "Total seconds spent doing I/Os.",
    "node_network_receive_bytes_total": "Network device statistic receive_bytes.",
    "node_network_transmit_bytes_total": "Network device statistic transmit_bytes.",
    **INFINIBAND_HELPS,
    **NFS_HELPS,
    **LUSTRE_HELPS,
    **{
        f"node_pressure_{name}_seconds_total": f"Total time in seconds that {text}."
        for name, text in _PRESSURE.values()
    },
    "node_time_seconds": "System time in seconds since epoch (1970).",
}


class HostExporter:
    """Exporter of the host's metrics.

    Parameters
    ----------
    options
        Unused.
    root
        Folder of ``proc`` and ``sys``.
    """

    name = "host"

    def __init__(self, options: ExporterOptions, root: Path = Path("/")) -> None:  # noqa: ARG002
        self._proc, self._classes = root / "proc", root / "sys/class"
        self._rare_sources = (
            RareSource(self._classes / "infiniband", partial(infiniband_ports, self._classes / "infiniband")),
            RareSource(self._proc / "fs/nfsfs", partial(nfs_mounts, self._proc / "self")),
            RareSource(root / "sys/fs/lustre", partial(lustre_mounts, root)),
        )
        self._cpu_seconds: dict[tuple[str, str], float] = {}

    def check(self) -> str | None:
        """Return ``None``: every host has some of the metrics."""
        return None

    def collect(self) -> Iterable[Metric]:
        """Read everything once."""
        return Families(_HELPS, self._measurements())

    def _measurements(self) -> Iterator[Measurement]:
        for name, labels, value in _stat(read_file(self._proc / "stat")):
            yield name, labels, self._monotonic(labels, value) if name == "node_cpu_seconds_total" else value
        for minutes, load in zip((1, 5, 15), os.getloadavg(), strict=True):
            yield f"node_load{minutes}", {}, load
        yield from _memory(read_file(self._proc / "meminfo"))
        disks = dict(_disks(read_file(self._proc / "diskstats")))
        yield from _devices(disks, virtual_devices(self._classes / "block", disks), _DISK_COLUMNS)
        interfaces = dict(_interfaces(read_file(self._proc / "net/dev")))
        yield from _devices(interfaces, virtual_devices(self._classes / "net", interfaces), _NETWORK_COLUMNS)
        for source in self._rare_sources:
            yield from source.read()
        for resource in ("cpu", "io", "memory"):
            yield from _pressure(resource, read_file(self._proc / "pressure" / resource))
        yield "node_time_seconds", {}, time.time()

    def _monotonic(self, labels: Mapping[str, str], seconds: float) -> float:
        key = labels["cpu"], labels["mode"]
        last = self._cpu_seconds.get(key, 0.0)
        if last - _CPU_RESTART_SECONDS < seconds < last:
            return last
        self._cpu_seconds[key] = seconds
        return seconds


def _stat(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for line in text.splitlines():
        name, _, values = line.partition(" ")
        if name == "btime":
            yield "node_boot_time_seconds", {}, int(values)
        elif name.startswith("cpu") and (number := name[3:]):
            for mode, ticks in zip(_CPU_MODES, values.split(), strict=False):
                yield "node_cpu_seconds_total", {"cpu": number, "mode": mode}, int(ticks) / _TICKS


def _memory(text: str) -> Iterator[Measurement]:
    # psutil adds reclaimable slabs to Cached, which node_exporter does not.
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    for name in _MEMORY:
        if name in lines:
            yield f"node_memory_{name}_bytes", {}, int(lines[name].split()[0]) * 1024


def _disks(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        # Columns: reads and writes in fours (completed, merged, sectors, milliseconds), requests in progress,
        # milliseconds with requests in progress.
        _, _, device, *columns = line.split()
        if not _IGNORED_DISKS.fullmatch(device):
            yield device, columns


def _interfaces(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines()[2:]:  # two lines of headings
        device, _, columns = line.rpartition(":")  # a device's alias holds a colon itself
        yield device.strip(), columns.split()


def _devices(
    found: Mapping[str, list[str]], virtual: Container[str], metrics: Mapping[str, tuple[int, int, int]]
) -> Iterator[Measurement]:
    """Yield the metrics of devices.

    A virtual device has a label that node_exporter lacks, so that sums can leave it out.
    """
    for device, columns in found.items():
        labels = {"device": device, **({"virtual": "true"} if device in virtual else {})}
        for name, (column, times, over) in metrics.items():
            yield name, labels, int(columns[column]) * times / over


def _pressure(resource: str, text: str) -> Iterator[Measurement]:
    for line in text.splitlines():
        share, _, fields = line.partition(" ")
        if known := _PRESSURE.get((resource, share)):
            yield f"node_pressure_{known[0]}_seconds_total", {}, int(fields.rpartition("total=")[2]) / 1e6
