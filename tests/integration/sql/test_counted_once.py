"""Devices with several lines count once: dcgm-exporter repeats one for each pod, job and virtual GPU."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hypergauge.sql.queries.traces import counters_of
from tests.support.world import HOST, World

pytestmark = pytest.mark.flavours

GPU = "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4"
OTHER = "GPU-9c2f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4"
MIB = 2**20
SECONDS = 60

# Of one GPU: Kubernetes shares it by time-slicing, job mapping knows two jobs on it, a plugin calls its parts virtual GPUs.
PODS = ['pod="a",namespace="x",container="c"', 'pod="b",namespace="x",container="c"']
LINES = [*PODS, 'hpc_job="1"', 'hpc_job="2"', *(f'{pod},vgpu="{number}"' for number, pod in enumerate(PODS))]


def line(metric: str, gpu: str, value: float, further: str = "") -> str:
    return (
        f'{metric}{{gpu="0",UUID="{gpu}",device="nvidia0",hostname="{HOST}"{"," * bool(further)}{further}}} {value}\n'
    )


def scrape(world: World, start: float, exposition_at: Callable[[int], str], exporter: str = "dcgm") -> None:
    world.write(
        world.scraped([(start + second, exposition_at(second).encode()) for second in range(SECONDS)], exporter)
    )


def exposition() -> str:
    """Return an exposition in which the first GPU has many lines of each metric, and the second one line."""
    lines = []
    for metric, value, of_other in (
        ("DCGM_FI_DEV_FB_USED", 1000, 3000),
        ("DCGM_FI_DEV_FB_FREE", 9000, 7000),
        ("DCGM_FI_DEV_POWER_USAGE", 300, 100),
        ("DCGM_FI_DEV_GPU_UTIL", 100, 50),
        ("DCGM_FI_DEV_SOMETHING_NEW", 7, 1),
    ):
        lines += [line(metric, GPU, value, more) for more in LINES] + [line(metric, OTHER, of_other)]
    return "".join(lines)


EXPECTED = {
    "gpu_memory_used": 4000 * MIB,
    "gpu_memory_free": 16000 * MIB,
    "gpu_power": 400.0,
    "gpu_utilization": 0.75,
    "DCGM_FI_DEV_SOMETHING_NEW": 8.0,  # which the catalog does not know
}


def place(world: World, run: str, start: float) -> None:
    world.connection.execute(
        "insert into placements (run_id, host, gpu_uuid, started_at, ended_at)"
        " values (%s, %s, %s, to_timestamp(%s), to_timestamp(%s))",
        (run, HOST, OTHER, start, start + SECONDS),
    )


@pytest.fixture
def start() -> float:
    return time.time() // 60 * 60 - 3600


def test_a_device_counts_once_in_a_run(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS, gpu=GPU)
    place(world, run, start)
    scrape(world, start, lambda _: exposition())
    for quantity, value in EXPECTED.items():
        summary = world.connection.execute(
            "select mean, max from run_summary where run_id = %s and quantity = %s and metric is null", (run, quantity)
        ).fetchall()
        assert summary == [(pytest.approx(value), pytest.approx(value))], quantity
        for step in (1000, 10_000):
            points = world.connection.execute(
                "select distinct value from run_chart(array[%s], array[%s], null, null, %s, true, 10)",
                (run, quantity, step),
            ).fetchall()
            assert points == [(pytest.approx(value),)], (quantity, step)
    traced = {(one.device, one.value) for one in counters_of(world.connection, run, ["gpu_memory_used"])}
    assert traced == {(GPU, 1000.0 * MIB), (OTHER, 3000.0 * MIB)}


def test_a_device_counts_once_on_the_dashboard_of_the_fleet(world: World) -> None:
    start = time.time() - SECONDS
    scrape(world, start, lambda _: exposition())
    rows = world.connection.execute("select gpu_uuid, memory_used, power, utilization from fleet()").fetchall()
    assert sorted(rows) == [(GPU, 1000.0 * MIB, 300.0, 1.0), (OTHER, 3000.0 * MIB, 100.0, 0.5)]
    points = world.connection.execute(
        "select value, low, high from series_chart(array['gpu_memory_used'], to_timestamp(%s), to_timestamp(%s), 10000, 'host')",
        (start + 10, start + 40),
    ).fetchall()
    assert set(points) == {(4000.0 * MIB,) * 3}


def test_energy_is_whole_though_the_pod_changes(world: World) -> None:
    start = time.time() - 3600
    scrape(world, start, lambda second: line("DCGM_FI_DEV_POWER_USAGE", GPU, 300, PODS[second >= SECONDS // 2]))
    [(joules,)] = world.connection.execute(
        "select sum(joules) from energy(to_timestamp(%s), to_timestamp(%s))", (start, start + SECONDS)
    ).fetchall()
    assert joules == pytest.approx(300 * SECONDS, rel=0.05)


def test_the_whole_device_counts_where_each_pod_has_its_own_part(world: World, start: float) -> None:
    """As newer dcgm-exporters report memory and utilization: a line of the device beside one of each pod's processes."""
    run = world.run(start, start + SECONDS, gpu=GPU)
    parts = [("", 1000), (PODS[0], 700), (PODS[1], 250)]
    scrape(world, start, lambda _: "".join(line("DCGM_FI_DEV_FB_USED", GPU, value, more) for more, value in parts))
    row = world.connection.execute(
        "select mean, min, max from run_summary where run_id = %s and quantity = 'gpu_memory_used' and metric is null",
        (run,),
    ).fetchone()
    assert row == (1000.0 * MIB,) * 3


def test_links_of_a_device_are_not_its_value_repeated(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS, gpu=GPU)
    links = "".join(f'DCGM_FI_DEV_NVLINK_TX{{nvlink="{link}",gpu="0",gpu_uuid="{GPU}"}} 5\n' for link in range(4))
    scrape(world, start, lambda _: links)
    row = world.connection.execute(
        "select mean from run_summary where run_id = %s and quantity = 'DCGM_FI_DEV_NVLINK_TX' and metric is null",
        (run,),
    ).fetchone()
    assert row == (20.0,)


# Of one host: two disks in an array with a volume on it, two network cards in a bond, containers behind bridges.
DISKS = {
    "sda": 100, "sda1": 100, "nvme0n1": 100, "nvme0n1p2": 60, "md127": 200, "md127p1": 200, "dm-0": 200, "dm-12": 200, "loop3": 50,
    "zram0": 7, "zd16": 9, "mmcblk0p1": 3, "vdb1": 4, "xvda1": 5, "drbd0": 6, "bcache0": 8,
}  # fmt: skip
NETWORKS = {
    "eth0": 100, "enp4s0f1np1": 100, "bond0": 200, "bond0.100": 200, "eth0.7": 30, "br-9f3c2b1a": 50, "br0": 50, "docker0": 50,
    "veth7ac1f": 50, "cali12ab": 50, "cni0": 50, "flannel.1": 50, "virbr0": 50, "tap0": 50, "wg0": 50, "tun0": 50, "vlan9": 50,
    "lo": 1000, "enp8s0f0npf0vf1": 20, "pf0hpf": 20, "ib0": 0,
}  # fmt: skip


def counters(values: dict[str, int], second: int, *names: str) -> str:
    """Return counters that rise by so much a second."""
    return "".join(
        f'# TYPE {name} counter\n' + "".join(f'{name}{{device="{device}"}} {value * second}\n' for device, value in values.items())
        for name in names
    )  # fmt: skip


def host_exposition(second: int) -> str:
    disks = counters(DISKS, second, "node_disk_read_bytes_total", "node_disk_written_bytes_total")
    return disks + counters(NETWORKS, second, "node_network_receive_bytes_total", "node_network_transmit_bytes_total")


def host_means(world: World, run: str) -> dict[str, float]:
    rows = world.connection.execute(
        "select quantity, mean from run_summary where run_id = %s and scope = 'host' and metric is null", (run,)
    ).fetchall()
    return {quantity: round(mean, 3) for quantity, mean in rows}


def test_disks_and_networks_count_once_whatever_stands_on_them(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS)
    scrape(world, start, host_exposition, "node")
    assert host_means(world, run) == {
        "disk_read": 200, "disk_write": 200, "network_receive": 200, "network_transmit": 200,
        "loopback_receive": 1000, "loopback_transmit": 1000,
        # The greatest of them, for they stand on each other as well.
        "virtual_disk_read": 200, "virtual_disk_write": 200, "virtual_network_receive": 200, "virtual_network_transmit": 200,
    }  # fmt: skip
    points = world.connection.execute(
        "select distinct value from run_chart(array[%s], '{disk_read}', null, null, 10000, true, 10)", (run,)
    ).fetchall()
    assert points == [(pytest.approx(200),)]
    [(devices,)] = world.connection.execute(
        "select count(distinct device) from run_samples where run_id = %s and metric = 'node_disk_read_bytes_total'",
        (run,),
    ).fetchall()
    assert devices == len(DISKS), "what does not count is there all the same"


def test_a_label_knows_better_than_a_name(world: World, start: float) -> None:
    """Our own exporter reads in /sys what an interface stands on; a rule of relabeling may add it for any other."""
    run = world.run(start, start + SECONDS)
    labels = {'device="eth0"': 100, 'device="lan",virtual="true"': 100, 'device="bond7",virtual="false"': 30}
    name = "node_network_receive_bytes_total"
    scrape(
        world, start,
        lambda at: f"# TYPE {name} counter\n" + "".join(f"{name}{{{one}}} {value * at}\n" for one, value in labels.items()), "host",
    )  # fmt: skip
    assert host_means(world, run) == {"network_receive": 130, "virtual_network_receive": 100}


@pytest.mark.parametrize("head", [0, 100], ids=["before Linux 6.4", "since"])
def test_a_path_to_a_disk_is_that_disk(world: World, start: float, head: int) -> None:
    """With NVMe's own multipathing, where older kernels count nothing at the disk itself."""
    run = world.run(start, start + SECONDS)
    disks = {"nvme0n1": head, "nvme0c0n1": 100, "nvme1n1": 7}
    scrape(world, start, lambda second: counters(disks, second, "node_disk_read_bytes_total"), "node")
    assert host_means(world, run) == {"disk_read": 107}


# Of one host: a RoCE adapter whose port carries NFS over RDMA, and an InfiniBand adapter with two ports that carry Lustre.
CLUSTER = {
    'node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"}': 30,
    'node_infiniband_port_data_received_bytes_total{device="mlx5_1",port="1"}': 100,
    'node_infiniband_port_data_received_bytes_total{device="mlx5_1",port="2"}': 50,
    'node_mountstats_nfs_total_read_bytes_total{export="a:/home",protocol="rdma",mountaddr="10.0.0.1"}': 10,
    'node_mountstats_nfs_total_read_bytes_total{export="a:/data",protocol="rdma",mountaddr="10.0.0.1"}': 20,
    'node_mountstats_nfs_operations_requests_total{export="a:/home",operation="READ",protocol="rdma",mountaddr="10.0.0.1"}': 2,
    'node_mountstats_nfs_operations_requests_total{export="a:/home",operation="GETATTR",protocol="rdma",mountaddr="10.0.0.1"}': 5,
    'lustre_read_bytes_total{component="client",target="scratch-ffff88105db50000"}': 140,
    'lustre_read_bytes_total{component="ost",target="scratch-OST0000"}': 7,  # a server's
    'node_network_receive_bytes_total{device="eth0"}': 3,
    'node_network_receive_bytes_total{device="bond0"}': 3,
    'node_disk_read_bytes_total{device="nvme0n1"}': 1,
}  # fmt: skip


def cluster_exposition(second: int) -> bytes:
    names = dict.fromkeys(series.partition("{")[0] for series in CLUSTER)
    lines = []
    for name in names:
        lines.append(f"# TYPE {name} counter")
        lines += [f"{series} {value * second}" for series, value in CLUSTER.items() if series.startswith(f"{name}{{")]
    return "\n".join([*lines, ""]).encode()


def test_network_file_systems_and_rdma_are_added_to_no_disk_and_no_interface(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS)
    world.write(world.scraped([(start + second, cluster_exposition(second)) for second in range(SECONDS)], "host"))
    assert host_means(world, run) == {
        "infiniband_receive": 180, "nfs_read": 30, "nfs_requests": 7, "lustre_read": 140, "network_receive": 3,
        "virtual_network_receive": 3, "disk_read": 1, "lustre_read_bytes_total": 7,
    }  # fmt: skip
    devices = world.connection.execute(
        "select distinct metric, device from run_samples where run_id = %s and device is not null"
        " and metric ~ 'infiniband|total_read|lustre'",
        (run,),
    ).fetchall()
    assert {device for _, device in devices} == {
        "a:/data", "a:/home", "mlx5_0/1", "mlx5_1/1", "mlx5_1/2", "scratch-ffff88105db50000", "scratch-OST0000",
    }  # fmt: skip


def test_two_exporters_of_one_host_count_once(world: World, start: float) -> None:
    """Our exporter and a node_exporter name the same ports and mounts."""
    run = world.run(start, start + SECONDS)
    responses = [(start + second, cluster_exposition(second)) for second in range(SECONDS)]
    for exporter in ("host", "node"):
        world.write(world.scraped(responses, exporter))
    means = host_means(world, run)
    assert (means["infiniband_receive"], means["nfs_read"], means["lustre_read"]) == (180, 30, 140)
