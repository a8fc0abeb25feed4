"""Names, labels and values of node_exporter: with a synthetic ``/proc``, and with this host's."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from hypergauge.exporters.host.exporter import HostExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from tests.support.exporters.golden import check_golden

# Names and labels of node_exporter 1.9 on Linux.
NAMES = {
    "node_boot_time_seconds": set(),
    "node_cpu_seconds_total": {"cpu", "mode"},
    "node_disk_io_time_seconds_total": {"device"},
    "node_disk_read_bytes_total": {"device"},
    "node_disk_written_bytes_total": {"device"},
    "node_load1": set(),
    "node_load5": set(),
    "node_load15": set(),
    "node_memory_Buffers_bytes": set(),
    "node_memory_Cached_bytes": set(),
    "node_memory_MemAvailable_bytes": set(),
    "node_memory_MemFree_bytes": set(),
    "node_memory_MemTotal_bytes": set(),
    "node_memory_SwapFree_bytes": set(),
    "node_memory_SwapTotal_bytes": set(),
    "node_network_receive_bytes_total": {"device"},
    "node_network_transmit_bytes_total": {"device"},
    "node_pressure_cpu_waiting_seconds_total": set(),
    "node_pressure_io_stalled_seconds_total": set(),
    "node_pressure_io_waiting_seconds_total": set(),
    "node_pressure_memory_stalled_seconds_total": set(),
    "node_pressure_memory_waiting_seconds_total": set(),
    "node_time_seconds": set(),
}

MEMINFO = """\
MemTotal:       24683948 kB
MemFree:         1038944 kB
MemAvailable:   22861456 kB
Buffers:            6512 kB
Cached:           131684 kB
SwapCached:            0 kB
SwapTotal:       2097148 kB
SwapFree:        2097148 kB
SReclaimable:     500000 kB
HugePages_Total:       0
"""

PRESSURE = """\
some avg10=0.00 avg60=0.00 avg300=0.07 total={some}
full avg10=0.00 avg60=0.00 avg300=0.00 total={full}
"""

# CPU 1 is offline, and the list of interrupts is long.
STAT = """\
cpu  6100 10 1000 40000 200 0 30 40 0 0
cpu0 4000 10 700 30000 150 0 20 30 7 1
cpu2 2100 0 300 10000 50 0 10 10 0 0
intr 3204276 0 0 0
ctxt 7
btime 1795249100
processes 5
"""

# A kernel since 5.5 has 17 columns, one before 4.18 has 11.
DISKSTATS = """\
   7       0 loop0 5 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 300 1 4000 70 200 2 6000 90 0 2500 160 0 0 0 0 5 9
 259       1 nvme0n1p1 300 1 4000 70 200 2 6000 90 0 2500 160 0 0 0 0 5 9
   8      16 sdb 3 1 40 7 2 2 60 9 0 25 16
   8      17 sdb1 3 1 40 7 2 2 60 9 0 25 16
"""

NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 37397669  138161    0    0    0     0          0         0 37397670  138161    0    0    0     0       0          0
eth0:1587658380   47675    0    0    0     0          0         0  2848887   26606    0    0    0     0       0          0
"""

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(exporter: HostExporter) -> Samples:
    families: list[Metric] = list(exporter.collect())
    samples = [sample for family in families for sample in family.samples]
    values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(values) == len(samples), "no series twice"
    return values


def value_of(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


@pytest.fixture
def options(tmp_path: Path) -> ExporterOptions:
    return ExporterOptions(home=tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    pressure = root / "proc/pressure"
    pressure.mkdir(parents=True)
    (root / "proc/net").mkdir()
    for name, text in (("meminfo", MEMINFO), ("stat", STAT), ("diskstats", DISKSTATS), ("net/dev", NET_DEV)):
        (root / "proc" / name).write_text(text)
    (pressure / "cpu").write_text(PRESSURE.format(some=54234051, full=0))
    (pressure / "io").write_text(PRESSURE.format(some=2_500_000, full=1_250_000))
    (pressure / "memory").write_text(PRESSURE.format(some=3, full=1))
    return root


def test_names_and_labels_are_node_exporters(options: ExporterOptions, root: Path) -> None:
    exporter = HostExporter(options, root)
    assert exporter.check() is None
    labels: dict[str, set[str]] = {}
    for name, pairs in read(exporter):
        assert labels.setdefault(name, {key for key, _ in pairs}) == {key for key, _ in pairs}
    assert labels == NAMES


def test_all_metrics_of_a_host(options: ExporterOptions, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (3.5, 2.25, 1.0))
    monkeypatch.setattr(time, "time", lambda: 1795249199.5)
    with (root / "proc/net/dev").open("a") as interfaces:
        interfaces.write(f"lan: {'5 ' * 16}\n")
    lay_out(root / "sys/class/block", ["nvme0n1"], ["sdb"])
    lay_out(root / "sys/class/net", ["eth0"], ["lan"])
    check_golden("host", HostExporter(options, root).collect())


def test_names_are_valid_for_their_types(options: ExporterOptions) -> None:
    for family in HostExporter(options).collect():
        assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", family.name)
        assert family.documentation.endswith(".")
        assert family.type == ("counter" if any(s.name.endswith("_total") for s in family.samples) else family.type)


def test_memory_and_pressure_in_bytes_and_seconds(options: ExporterOptions, root: Path) -> None:
    samples = read(HostExporter(options, root))
    assert value_of(samples, "node_memory_MemTotal_bytes") == 24683948 * 1024
    assert value_of(samples, "node_memory_Cached_bytes") == 131684 * 1024, "without reclaimable slabs"
    assert value_of(samples, "node_memory_SwapFree_bytes") == 2097148 * 1024
    assert value_of(samples, "node_pressure_cpu_waiting_seconds_total") == 54.234051
    assert value_of(samples, "node_pressure_io_waiting_seconds_total") == 2.5
    assert value_of(samples, "node_pressure_io_stalled_seconds_total") == 1.25
    assert value_of(samples, "node_pressure_memory_stalled_seconds_total") == 1e-6


def test_missing_metrics_are_left_out(options: ExporterOptions, tmp_path: Path) -> None:
    samples = read(HostExporter(options, tmp_path / "bare"))
    assert {name for name, _ in samples} == {"node_load1", "node_load5", "node_load15", "node_time_seconds"}, (
        "which need no file"
    )


def test_cpus_have_the_kernels_numbers(options: ExporterOptions, root: Path) -> None:
    samples = read(HostExporter(options, root))
    numbers = {dict(labels)["cpu"] for name, labels in samples if name == "node_cpu_seconds_total"}
    assert numbers == {"0", "2"}
    assert value_of(samples, "node_cpu_seconds_total", cpu="0", mode="user") == 40
    assert value_of(samples, "node_cpu_seconds_total", cpu="0", mode="steal") == 0.3
    assert value_of(samples, "node_cpu_seconds_total", cpu="2", mode="idle") == 100
    assert value_of(samples, "node_boot_time_seconds") == 1795249100


def test_disks_and_network_in_bytes_and_seconds(options: ExporterOptions, root: Path) -> None:
    samples = read(HostExporter(options, root))
    disks = {dict(labels)["device"] for name, labels in samples if name.startswith("node_disk_")}
    assert disks == {"nvme0n1", "sdb"}, "without partitions and memory disks"
    assert value_of(samples, "node_disk_read_bytes_total", device="nvme0n1") == 4000 * 512
    assert value_of(samples, "node_disk_written_bytes_total", device="nvme0n1") == 6000 * 512
    assert value_of(samples, "node_disk_io_time_seconds_total", device="nvme0n1") == 2.5
    assert value_of(samples, "node_disk_io_time_seconds_total", device="sdb") == 0.025
    assert value_of(samples, "node_network_receive_bytes_total", device="lo") == 37397669
    assert value_of(samples, "node_network_transmit_bytes_total", device="eth0") == 2848887


def lay_out(folder: Path, hardware: Iterable[str], others: Iterable[str]) -> None:
    """Create a class of devices as in ``/sys``."""
    for name in hardware:
        (folder / name / "device").mkdir(parents=True)
    for name in others:
        (folder / name).mkdir(parents=True)


def shown(samples: Samples, name: str) -> dict[str, str | None]:
    """Return the label `virtual` of each device."""
    found = [dict(labels) for one, labels in samples if one == name]
    return {labels["device"]: labels.get("virtual") for labels in found}


def test_virtual_devices_are_labeled(options: ExporterOptions, root: Path) -> None:
    names = ["nvme0n1", "sdb", "dm-0", "md127", "mmcblk0", "mmcblk0p1", "absent"]
    (root / "proc/diskstats").write_text("".join(f" 8 0 {name} 3 1 40 7 2 2 60 9 0 25 16\n" for name in names))
    lay_out(root / "sys/class/block", ["nvme0n1", "sdb", "mmcblk0"], ["dm-0", "md127", "mmcblk0p1"])
    networks = ["lo", "eth0", "vf0", "bond0", "lan", "wlan0", "eth0.7", "veth1"]
    (root / "proc/net/dev").write_text("-\n-\n" + "".join(f"{name}: {'5 ' * 16}\n" for name in networks))
    lay_out(root / "sys/class/net", ["eth0", "vf0", "wlan0"], ["lo", "bond0", "lan", "eth0.7", "veth1"])
    (root / "sys/class/net/vf0/master").symlink_to("../eth0")  # as on Azure: eth0 counts its traffic as well
    (root / "sys/class/net/wlan0/master").symlink_to("../bond0")
    samples = read(HostExporter(options, root))
    disks = {
        "nvme0n1": None,
        "sdb": None,
        "dm-0": "true",
        "md127": "true",
        "mmcblk0": None,
        "mmcblk0p1": "true",
        "absent": None,
    }
    assert shown(samples, "node_disk_read_bytes_total") == shown(samples, "node_disk_io_time_seconds_total") == disks
    assert shown(samples, "node_network_receive_bytes_total") == shown(samples, "node_network_transmit_bytes_total") == {
        "lo": None, "eth0": None, "vf0": "true", "bond0": "true", "lan": "true", "wlan0": None, "eth0.7": "true", "veth1": "true",
    }  # fmt: skip
    assert value_of(samples, "node_network_receive_bytes_total", device="lan", virtual="true") == 5


def test_a_functions_representor_is_virtual(options: ExporterOptions, root: Path) -> None:
    """In switchdev mode the card's port counts the traffic of its functions."""
    ports = {"eth0": "p0", "eth0_0": "pf0vf0", "pf0hpf": "c1pf0", "en3f0pf0sf1": "pf0sf1", "eth1": ""}
    (root / "proc/net/dev").write_text("-\n-\n" + "".join(f"{name}: {'5 ' * 16}\n" for name in ports))
    lay_out(root / "sys/class/net", ports, [])
    for name, port in ports.items():
        (root / "sys/class/net" / name / "phys_port_name").write_text(f"{port}\n")
    assert shown(read(HostExporter(options, root)), "node_network_receive_bytes_total") == {
        "eth0": None, "eth0_0": "true", "pf0hpf": "true", "en3f0pf0sf1": "true", "eth1": None,
    }  # fmt: skip


def test_in_a_container_no_device_is_virtual(options: ExporterOptions, root: Path) -> None:
    """A container's `eth0` is an end of a veth, and its only interface."""
    lay_out(root / "sys/class/net", [], ["lo", "eth0"])
    assert shown(read(HostExporter(options, root)), "node_network_receive_bytes_total") == {"lo": None, "eth0": None}


def test_cpu_time_of_this_host_agrees_with_the_kernel(options: ExporterOptions) -> None:
    exporter = HostExporter(options)
    before, started = read(exporter), time.monotonic()
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass
    after, seconds = read(exporter), time.monotonic() - started
    used = {key: after[key] - before[key] for key in after if key[0] == "node_cpu_seconds_total"}
    assert min(used.values()) >= 0
    modes = {dict(labels)["mode"] for _, labels in used}
    assert modes == {"idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"}
    # A virtual machine's kernel may count a part of it as steal time, and niced work separately.
    busy = sum(value for (_, labels), value in used.items() if not {("mode", "idle"), ("mode", "iowait")} & labels)
    assert busy >= 0.2
    assert sum(used.values()) == pytest.approx(seconds * (os.cpu_count() or 1), rel=0.25)


def test_the_hosts_clock_is_exposed(options: ExporterOptions) -> None:
    before = time.time()
    shown = value_of(read(HostExporter(options)), "node_time_seconds")
    assert shown is not None
    assert before <= shown <= time.time()


def test_partitions_and_memory_disks_are_left_out(options: ExporterOptions) -> None:
    devices = {dict(labels)["device"] for name, labels in read(HostExporter(options)) if name.startswith("node_disk_")}
    ignored = {
        disk for disk in devices if re.fullmatch(r"(loop|ram|zram)\d+|(s|h|v|xv)d[a-z]\d+|nvme\d+n\d+p\d+", disk)
    }
    assert ignored == set()
    assert "lo" in {dict(labels)["device"] for name, labels in read(HostExporter(options)) if "network" in name}
