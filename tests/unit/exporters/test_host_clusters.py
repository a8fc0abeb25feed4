"""NFS, Lustre, InfiniBand and RoCE of a host: node_exporter's own output for the same files, from captures."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.exporters.host.exporter import HostExporter
from hypergauge.exporters.host.rare_source import RareSource
from hypergauge.exporters.serving.families import Measurement
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.text import render
from tests.support.exporters.golden import check_golden, check_parses

DATA = Path(__file__).parents[2] / "data/clusters"
MOUNT = 'export="192.168.1.1:/srv/test",mountaddr="192.168.1.1"'
# Lines of node_exporter's `collector/fixtures/e2e-output.txt`.
NFS = {
    f'node_mountstats_nfs_read_bytes_total{{{MOUNT},protocol="tcp"}} 1.20764023e+09',
    f'node_mountstats_nfs_read_bytes_total{{{MOUNT},protocol="udp"}} 1.20764023e+09',
    f'node_mountstats_nfs_write_bytes_total{{{MOUNT},protocol="tcp"}} 0',
    f'node_mountstats_nfs_write_bytes_total{{{MOUNT},protocol="udp"}} 0',
    f'node_mountstats_nfs_direct_read_bytes_total{{{MOUNT},protocol="tcp"}} 0',
    f'node_mountstats_nfs_direct_read_bytes_total{{{MOUNT},protocol="udp"}} 0',
    f'node_mountstats_nfs_direct_write_bytes_total{{{MOUNT},protocol="tcp"}} 0',
    f'node_mountstats_nfs_direct_write_bytes_total{{{MOUNT},protocol="udp"}} 0',
    f'node_mountstats_nfs_total_read_bytes_total{{{MOUNT},protocol="tcp"}} 1.210214218e+09',
    f'node_mountstats_nfs_total_read_bytes_total{{{MOUNT},protocol="udp"}} 1.210214218e+09',
    f'node_mountstats_nfs_total_write_bytes_total{{{MOUNT},protocol="tcp"}} 0',
    f'node_mountstats_nfs_total_write_bytes_total{{{MOUNT},protocol="udp"}} 0',
    f'node_mountstats_nfs_operations_requests_total{{{MOUNT},operation="ACCESS",protocol="udp"}} 2.927395007e+09',
    f'node_mountstats_nfs_operations_requests_total{{{MOUNT},operation="READ",protocol="tcp"}} 1298',
    f'node_mountstats_nfs_operations_requests_total{{{MOUNT},operation="READ",protocol="udp"}} 1298',
    f'node_mountstats_nfs_operations_request_time_seconds_total{{{MOUNT},operation="ACCESS",protocol="udp"}} 1.953587717e+06',
    f'node_mountstats_nfs_operations_request_time_seconds_total{{{MOUNT},operation="READ",protocol="tcp"}} 79.407',
    f'node_mountstats_nfs_operations_request_time_seconds_total{{{MOUNT},operation="READ",protocol="udp"}} 79.407',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a host with NFS, Lustre of before 2.12, and one port of an adapter."""
    put(tmp_path, "proc/self/mountstats", (DATA / "mountstats").read_text())
    put(tmp_path, "proc/self/mountinfo", (DATA / "mountinfo").read_text())
    (tmp_path / "proc/fs/nfsfs").mkdir(parents=True)
    put(tmp_path, "sys/fs/lustre/version", "2.10.1\n")
    stats = (DATA / "lustre-2017-stats").read_text()
    put(tmp_path, "proc/fs/lustre/llite/lustrefs-ffff88105db50000/stats", stats)
    for line in (DATA / "mlx5_0-port-1.txt").read_text().splitlines():
        counter, value = line.split()
        put(tmp_path, f"sys/class/infiniband/mlx5_0/ports/1/{counter}", f"{value}\n")
    return tmp_path


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def exposition(root: Path) -> str:
    page = render(HostExporter(ExporterOptions(home=root), root).collect())
    check_parses(page)
    return page.decode()


def samples(text: str, prefix: str) -> dict[str, float]:
    """Return the values by series, with the labels in their alphabetical order."""
    found = {}
    for line in text.splitlines():
        if line.startswith(prefix):
            series, value = line.rsplit(" ", 1)
            name, labels = series.rstrip("}").split("{")
            ordered = ",".join(sorted(re.findall(r'\w+="[^"]*"', labels)))
            found[f"{name}{{{ordered}}}"] = float(value)
    return found


def test_metrics_of_a_cluster(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (3.5, 2.25, 1.0))
    families = HostExporter(ExporterOptions(home=root), root).collect()
    check_golden("host-cluster", [one for one in families if one.name != "node_time_seconds"])


def test_mounts_are_as_in_node_exporter(root: Path) -> None:
    """A second mount of the same export over the same protocol has the same counters, and is not repeated."""
    assert samples(exposition(root), "node_mountstats_") == samples("\n".join(NFS), "node_mountstats_")


def test_a_mounts_address_does_not_depend_on_the_order(root: Path) -> None:
    """The kernel lists mounts in two files, and one may come between the two reads."""
    path = root / "proc/self/mountinfo"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    assert samples(exposition(root), "node_mountstats_") == samples("\n".join(NFS), "node_mountstats_")


def test_the_servers_control_files_are_no_mount(root: Path) -> None:
    put(root, "proc/self/mountstats", "device nfsd mounted on /proc/fs/nfsd with fstype nfsd\n")
    assert samples(exposition(root), "node_mountstats_") == {}


def test_data_of_a_port_are_bytes(root: Path) -> None:
    """The adapter counts words of 4 bytes, as node_exporter's test of the same values says."""
    values = samples(exposition(root), "node_infiniband_")
    port = '{device="mlx5_0",port="1"}'
    assert values[f"node_infiniband_port_data_received_bytes_total{port}"] == 72505381512
    assert values[f"node_infiniband_port_data_transmitted_bytes_total{port}"] == 11523046035392
    assert values[f"node_infiniband_port_packets_transmitted_total{port}"] == 10907922116
    assert values[f"node_infiniband_roce_adp_retransmits_total{port}"] == 99
    assert f"node_infiniband_np_cnp_packets_sent_total{port}" not in values, "which this adapter lacks"


def test_an_adapter_without_counters(root: Path) -> None:
    """As ``i40iw0`` of node_exporter's files has them."""
    put(root, "sys/class/infiniband/i40iw0/ports/1/counters/port_rcv_data", "N/A (no PMA)\n")
    put(root, "sys/class/infiniband/rxe0/node_type", "1: CA\n")
    devices = {series.split('"')[1] for series in samples(exposition(root), "node_infiniband_")}
    assert devices == {"mlx5_0"}


def test_lustre_before_2_12(root: Path) -> None:
    """The lines of lustre_exporter's test of the same file."""
    client = 'component="client"'
    target = 'target="lustrefs-ffff88105db50000"'
    values = samples(exposition(root), "lustre_")
    assert {name: value for name, value in values.items() if "stats_total" not in name} == {
        f"lustre_read_samples_total{{{client},{target}}}": 1,
        f"lustre_read_bytes_total{{{client},{target}}}": 4194304,
        f"lustre_write_samples_total{{{client},{target}}}": 89467810,
        f"lustre_write_bytes_total{{{client},{target}}}": 93813797294080,
    }
    assert values[f'lustre_stats_total{{{client},operation="inode_permission",{target}}}'] == 398


def test_lustre_since_2_12(root: Path) -> None:
    """Its statistics are in debugfs, with the times of operations beside their numbers."""
    (root / "proc/fs/lustre/llite/lustrefs-ffff88105db50000/stats").unlink()
    text = (DATA / "lustre-2023-stats").read_text()
    # The form of lines that this capture, of a metadata benchmark, lacks.
    text += "read_bytes                3 samples [bytes] 4096 1048576 2101248 1099528404992\n"
    text += "read                      3 samples [usec] 20 400 520 160800\n"
    put(root, "sys/kernel/debug/lustre/llite/ai400x2-ffff9440f1003000/stats", text)
    values = samples(exposition(root), "lustre_")
    labels = 'component="client",target="ai400x2-ffff9440f1003000"'
    assert values[f"lustre_read_bytes_total{{{labels}}}"] == 2101248
    operations = {name.split('"')[3]: value for name, value in values.items() if "stats_total" in name}
    assert set(operations) == {
        "ioctl", "open", "close", "readdir", "getattr", "unlink", "mkdir", "rmdir", "mknod", "statfs", "inode_permission",
    }  # fmt: skip
    assert operations["open"] == 13812423


def test_a_host_with_none_of_them(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/mountstats", (DATA / "mountstats").read_text())  # without the kernel's module
    names = {line.split("{")[0] for line in exposition(tmp_path).splitlines() if not line.startswith("#")}
    assert not [name for name in names if name.startswith(("node_mountstats", "node_infiniband", "lustre_"))]


def test_an_absent_source_rests(tmp_path: Path) -> None:
    now, reads = 0.0, 0

    def measure() -> Iterator[Measurement]:
        nonlocal reads
        reads += 1
        yield "metric", {}, 1.0

    source = RareSource(tmp_path / "there", measure, clock=lambda: now)
    assert not source.read()
    (tmp_path / "there").touch()
    now = 9.0
    assert not source.read(), "it rests"
    assert reads == 0
    now = 10.0
    assert source.read() == [("metric", {}, 1.0)]
    assert source.read() == [("metric", {}, 1.0)], "and is read at each scrape from now on"
    assert reads == 2


def test_a_source_without_mounts_rests(tmp_path: Path) -> None:
    now, found = 0.0, list[Measurement]()
    source = RareSource(tmp_path, lambda: found, clock=lambda: now)
    assert not source.read()
    found.append(("metric", {}, 1.0))
    assert not source.read()
    now = 10.0
    assert source.read() == found
