"""What several lines say of one device counts once: dcgm-exporter's for each pod, job and virtual GPU."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from sql.traces import counters_of
from tests.world import HOST, World

GPU = "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4"
OTHER = "GPU-9c2f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4"
MIB = 2**20
SECONDS = 60

# Of one GPU: Kubernetes shares it by time-slicing, job mapping knows two jobs on it, a plugin calls its parts virtual GPUs.
PODS = ['pod="a",namespace="x",container="c"', 'pod="b",namespace="x",container="c"']
LINES = [*PODS, 'hpc_job="1"', 'hpc_job="2"', *(f'{pod},vgpu="{number}"' for number, pod in enumerate(PODS))]


def line(metric: str, gpu: str, value: float, further: str = "") -> str:
    return f'{metric}{{gpu="0",UUID="{gpu}",device="nvidia0",hostname="{HOST}"{"," * bool(further)}{further}}} {value}\n'


def scrape(world: World, start: float, body: Callable[[int], str], listener: str = "dcgm") -> None:
    world.write(world.scraped([(start + second, body(second).encode()) for second in range(SECONDS)], listener))


def said() -> str:
    """Return a body in which the first GPU has many lines of each metric, and the second one line."""
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
    scrape(world, start, lambda _: said())
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
    scrape(world, start, lambda _: said())
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
    """As newer dcgm-exporters say of memory and utilization: a line of the device beside one of each pod's processes."""
    run = world.run(start, start + SECONDS, gpu=GPU)
    parts = [("", 1000), (PODS[0], 700), (PODS[1], 250)]
    scrape(world, start, lambda _: "".join(line("DCGM_FI_DEV_FB_USED", GPU, value, more) for more, value in parts))
    row = world.connection.execute(
        "select mean, min, max from run_summary where run_id = %s and quantity = 'gpu_memory_used' and metric is null",
        (run,),
    ).fetchone()
    assert row == (1000.0 * MIB,) * 3


def test_links_of_a_device_are_not_its_figure_repeated(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS, gpu=GPU)
    links = "".join(f'DCGM_FI_DEV_NVLINK_TX{{nvlink="{link}",gpu="0",gpu_uuid="{GPU}"}} 5\n' for link in range(4))
    scrape(world, start, lambda _: links)
    row = world.connection.execute(
        "select mean from run_summary where run_id = %s and quantity = 'DCGM_FI_DEV_NVLINK_TX' and metric is null",
        (run,),
    ).fetchone()
    assert row == (20.0,)
