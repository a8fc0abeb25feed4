"""The fleet: busy and idle devices, their users and their energy, as read-only users see them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support import grafana
from hypergauge.collector.spool.records import SpoolRecord
from tests.support.world import World

GIB = 2**30


@pytest.fixture
def now() -> float:
    """The second that has just passed."""
    return float(int(time.time()))


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def gpu(number: int, **more: str) -> dict[str, str]:
    return {"UUID": uuid(number), "gpu": str(number), **more}


def instance(number: int, one: int, profile: str) -> dict[str, str]:
    return gpu(number, GPU_I_ID=str(one), GPU_I_PROFILE=profile)


def info(world: World, number: int, model: str, at: float, **more: str) -> SpoolRecord:
    return world.gauge("bench_gpu_info", [at], [1.0], gpu(number, name=model, **more), "nvml")


def query(world: World, statement: str, *parameters: object) -> list[Any]:
    """Query with the rights of dashboards."""
    with world.connection.transaction():
        world.connection.execute("set local role bench_reader")
        return world.connection.execute(statement.encode(), parameters).fetchall()


def test_a_device_is_named_by_its_labels(world: World, now: float) -> None:
    world.write(
        info(world, 0, "NVIDIA H100 80GB HBM3", now, simulated="true"),
        world.gauge("DCGM_FI_DEV_GPU_TEMP", [now], [50.0], gpu(1, modelName="NVIDIA A100"), "dcgm"),
        world.gauge("bench_gpu_memory_used_bytes", [now], [1.0], instance(1, 7, "1g.10gb"), "nvml"),
        world.gauge("nvidia_smi_temperature_gpu", [now], [50.0], {"uuid": uuid(2)}, "nvidia"),
        world.gauge("bench_gpu_power_watts", [now], [50.0], gpu(3) | {"gpu": "0"}, "amd"),
        world.gauge("bench_gpu_power_watts", [now], [5.0], {"UUID": "APPLE-node1", "gpu": "0"}, "apple"),
    )
    rows = query(world, "select device, model, profile, simulated from devices order by device")
    assert rows == [
        ("AMD GPU 0", None, None, False),
        ("Apple GPU 0", None, None, False),
        ("GPU 0 *", "NVIDIA H100 80GB HBM3", None, True),
        ("GPU 1", "NVIDIA A100", None, False),
        ("GPU 1 · 1g.10gb #7", "NVIDIA A100", "1g.10gb", False),
        ("GPU-00000002", None, None, False),
    ]


def test_busy_and_idle_devices_with_who_is_there_and_since_when(world: World, now: float) -> None:
    times = [now - 2, now - 1, now]
    world.run(now - 600, workload=1, gpu=uuid(0), name="resnet")
    world.run(now - 300, workload=1, position=2, gpu=uuid(0), name="bert")
    world.run(now - 200, workload=2, gpu=uuid(1), gpu_instance=7)
    world.run(now - 900, now - 120, workload=3, gpu=uuid(2))
    world.write(
        info(world, 0, "H100", now),
        *(
            world.gauge(metric, times, [value] * 3, labels, "nvml")
            for metric, labels, value in [
                ("bench_gpu_utilization_ratio", gpu(0), 0.9),
                ("bench_gpu_power_watts", gpu(0), 600.0),
                ("bench_gpu_memory_used_bytes", gpu(0), 60.0 * GIB),
                ("bench_gpu_power_watts", gpu(1), 200.0),
                ("bench_gpu_graphics_active_ratio", instance(1, 7, "1g.10gb"), 0.5),
                ("bench_gpu_memory_used_bytes", instance(1, 9, "3g.40gb"), 0.0),
                ("bench_gpu_utilization_ratio", gpu(2), 0.0),
                ("bench_gpu_utilization_ratio", gpu(3), 0.8),
            ]
        ),
        world.gauge("bench_gpu_utilization_ratio", [now - 600], [1.0], gpu(4), "nvml"),
    )
    rows = query(
        world,
        "select device, state, run, name, owner, round(extract(epoch from now() - since)::numeric, -1)::int, utilization,"
        " power from fleet()",
    )
    assert rows == [
        ("GPU 0", "busy", "20/1/1", "resnet", "me", 600, 0.9, 600),
        ("GPU 0", "busy", "20/1/2", "bert", "me", 300, 0.9, 600),
        ("GPU 1 · 1g.10gb #7", "busy", "20/2/1", "train", "me", 200, 0.5, 200),
        ("GPU 1 · 3g.40gb #9", "idle", None, None, None, None, None, 200),
        ("GPU 2", "idle", None, None, None, 120, 0, None),
        ("GPU 3", "others", None, None, None, None, 0.8, None),
    ]


def test_the_values_of_a_device_with_several_runs_are_marked(world: World, now: float) -> None:
    """They are of no run alone."""
    for position, number in ((1, 0), (2, 0), (3, 1)):
        world.run(now - 300, position=position, gpu=uuid(number))
    for number in (0, 1):
        world.write(world.gauge("bench_gpu_utilization_ratio", [now - 1, now], [0.9] * 2, gpu(number), "nvml"))
    board = json.loads(Path("dashboards/generated/bench-fleet.json").read_text())
    [table] = [one for one in board["panels"] if one["title"] == "GPUs with runs"]
    statement = table["targets"][0]["rawSql"].replace("${host:sqlstring}", "'node1'")
    assert [(row[1], row[3]) for row in query(world, statement)] == [
        ("GPU 0 †", "20/1/1 train"),
        ("GPU 0 †", "20/1/2 train"),
        ("GPU 1", "20/1/3 train"),
    ]


def test_a_count_of_devices_is_none_where_none_was_measured(world: World, now: float) -> None:
    def counts() -> list[Any]:
        board = json.loads(Path("dashboards/generated/bench-fleet.json").read_text())
        drawn = [one for one in grafana.panels(board) if one["title"] in ("Busy", "Idle", "Other use")]
        span, chosen = grafana.Span(now - 60, now), {"host": ["node1"]}
        queries = grafana.queries({**board, "panels": drawn, "annotations": {}}, chosen, span)
        return [query(world, one.sql) for one in queries]

    assert counts() == [[(None,)]] * 3
    world.write(world.gauge("bench_gpu_utilization_ratio", [now - 1], [0.0], gpu(0), "nvml"))
    assert counts() == [[(0,)], [(1,)], [(0,)]]


def test_a_device_is_free_after_its_run(world: World, now: float) -> None:
    """Its newest samples are still those of the run. An instance that was removed with the run is none."""
    world.run(now - 600, now - 30, gpu=uuid(0), gpu_instance=7)
    world.run(now - 600, now - 30, workload=2, gpu=uuid(1), gpu_instance=8)
    world.run(now - 600, now - 5, workload=3, gpu=uuid(2))
    world.run(now - 600, now - 30, workload=4, gpu=uuid(3))
    metric = "bench_gpu_graphics_active_ratio"
    removed, kept = [now - 40, now - 31], [now - 31, now - 1]
    world.write(
        world.gauge(metric, removed, [0.9, 0.9], instance(0, 7, "1g.10gb"), "nvml"),
        world.gauge(metric, kept, [0.9, 0.0], instance(1, 8, "1g.10gb"), "nvml"),
        world.gauge("bench_gpu_temperature_celsius", [now - 1], [50.0], gpu(0), "nvml"),
        world.gauge("bench_gpu_utilization_ratio", [now - 7, now - 6], [0.9] * 2, gpu(2), "nvml"),
        world.gauge("bench_gpu_utilization_ratio", [now - 2, now - 1], [0.9] * 2, gpu(3), "nvml"),
    )
    assert query(world, "select device, state from fleet()") == [
        ("GPU 0", "idle"),
        ("GPU 1 · 1g.10gb #8", "idle"),
        ("GPU 2", "idle"),
        ("GPU 3", "others"),
    ]


def test_a_running_run_with_its_own_metrics(world: World, now: float) -> None:
    run = world.run(now - 60, gpu=uuid(0), name="resnet")
    world.run(now - 30, workload=2, name="host only")
    mine: Mapping[str, str] = {"run_id": run}
    joules = [(now - 3 + second, 100.0 * second) for second in range(4)]
    world.write(
        info(world, 0, "H100", now),
        world.gauge("bench_process_threads", [now], [9.0], mine, "process"),
        world.gauge("bench_process_resident_memory_bytes", [now], [3.0 * GIB], mine, "process"),
        world.gauge("bench_process_proportional_memory_bytes", [now], [2.0 * GIB], mine, "process"),
        world.gauge("bench_gpu_run_memory_bytes", [now], [1.0 * GIB], {**gpu(0), **mine}, "nvml"),
        world.gauge("bench_gpu_run_memory_bytes", [now], [4.0 * GIB], {**gpu(1), **mine}, "nvml"),
        world.scraped(
            [
                (at, f'bench_gpu_attributed_energy_joules_total{{UUID="{uuid(0)}",run_id="{run}"}} {value}\n'.encode())
                for at, value in joules
            ],
            "nvml",
        ),
    )
    rows = query(world, "select run, name, devices, memory_used, gpu_memory_used, gpu_power from fleet_runs()")
    assert rows == [
        ("20/1/1", "resnet", "GPU 0", 2 * GIB, 5 * GIB, pytest.approx(100)),
        ("20/2/1", "host only", "no GPU", None, None, None),
    ]


def test_a_host_with_its_cores_and_gpus(world: World, now: float) -> None:
    world.run(now - 60, gpu=uuid(0))
    scrapes = []
    for second in range(3):
        busy = {("0", "user"): 1.0, ("0", "idle"): 0.0, ("1", "user"): 0.25, ("1", "idle"): 0.75}
        lines = (
            f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {n * second}\n' for (cpu, mode), n in busy.items()
        )
        scrapes.append((now - 2 + second, "".join(lines).encode()))
    world.write(
        world.scraped(scrapes, "host"),
        world.gauge("node_memory_MemTotal_bytes", [now], [8.0 * GIB]),
        world.gauge("node_memory_MemAvailable_bytes", [now], [6.0 * GIB]),
        world.gauge("bench_gpu_power_watts", [now], [70.0], gpu(0), "nvml"),
        world.gauge("bench_gpu_power_watts", [now], [70.0], gpu(1), "nvml"),
    )
    rows = query(world, "select host, runs, gpus, gpus_busy, cores_busy, cores, memory_used from fleet_hosts()")
    assert rows == [("node1", 1, 2, 1, pytest.approx(1.25), pytest.approx(2), 2 * GIB)]


def test_the_users_of_a_device_have_no_gaps_and_overlaps(world: World, now: float) -> None:
    world.write(world.gauge("bench_gpu_power_watts", [now], [70.0], gpu(0), "nvml"))
    world.write(world.gauge("bench_gpu_memory_used_bytes", [now], [0.0], instance(1, 7, "1g.10gb"), "nvml"))
    world.run(now - 600, now - 200, gpu=uuid(0), name="a")
    world.run(now - 400, now - 100, position=2, gpu=uuid(0), name="b")
    world.run(now - 300, workload=2, gpu=uuid(1), gpu_instance=7, name="c")
    rows = query(
        world,
        "select device, runs, extract(epoch from time)::float8, extract(epoch from ended)::float8"
        " from occupancy(to_timestamp(%s), to_timestamp(%s)) order by device, time",
        now - 500,
        now - 50,
    )
    assert rows == [
        ("GPU 0", "20/1/1 a", now - 500, now - 400),
        ("GPU 0", "20/1/1 a + 20/1/2 b", now - 400, now - 200),
        ("GPU 0", "20/1/2 b", now - 200, now - 100),
        ("GPU 1 · 1g.10gb #7", "20/2/1 c", now - 300, now - 50),
    ]
    assert query(
        world, "select distinct device from occupancy(to_timestamp(%s), to_timestamp(%s), 1)", now - 500, now
    ) == [("GPU 0",)]


def test_devices_are_in_the_order_of_their_numbers(world: World, now: float) -> None:
    for number in (10, 2):
        world.write(world.gauge("bench_gpu_power_watts", [now], [70.0], gpu(number), "nvml"))
        world.run(now - 100, position=number, gpu=uuid(number))
    asked = "select device from occupancy(to_timestamp(%s), to_timestamp(%s), {})"
    assert query(world, asked.format(40), now - 50, now) == [("GPU 2",), ("GPU 10",)]
    assert query(world, asked.format(1), now - 50, now) == [("GPU 2",)]


def counter(
    world: World, metric: str, labels: Mapping[str, str], start: float, watts: float, seconds: int
) -> SpoolRecord:
    """Return what scrapes of a counter of energy give."""
    written = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return world.scraped(
        [(start + at, f"{metric}{{{written}}} {watts * at}\n".encode()) for at in range(seconds + 1)], "nvml"
    )


def test_energy_is_grouped_by_user_and_the_simulated_apart(world: World, now: float) -> None:
    start = now // 600 * 600 - 7200
    run = world.run(start + 600, start + 1200, gpu=uuid(0), name="resnet")
    simulated_run = world.run(start + 600, start + 1200, workload=2, gpu=uuid(1), simulated=True)
    mine = {**gpu(0), "run_id": run}
    dreamed = {**gpu(1), "run_id": simulated_run, "simulated": "true"}
    world.write(
        counter(world, "bench_gpu_attributed_energy_joules_total", mine, start + 600, 300, 600),
        counter(world, "bench_gpu_idle_energy_joules_total", gpu(0), start, 50, 1800),
        counter(world, "bench_gpu_other_energy_joules_total", gpu(0), start, 10, 1800),
        counter(world, "bench_gpu_energy_joules_total", gpu(0), start, 170, 1800),
        counter(world, "bench_gpu_attributed_energy_joules_total", dreamed, start + 600, 500, 600),
        counter(world, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", gpu(2), start, 100_000, 1800),
        *(
            # A whole device's power, repeated on its instances, and the one value that is preferred.
            world.gauge(metric, [start + at for at in range(1, 1801)], [100.0] * 1800, {**gpu(2), **more}, "dcgm")
            for metric, more in [
                ("DCGM_FI_DEV_POWER_USAGE", {"GPU_I_ID": "7"}),
                ("DCGM_FI_DEV_POWER_USAGE", {"GPU_I_ID": "8"}),
            ]
        ),
        counter(world, "node_rapl_package_joules_total", {"package": "0"}, start, 20, 1800),
    )
    world.refresh()
    rows = query(
        world,
        "select kind, device, run, owner, simulated, round(joules::numeric, -2)::int"
        " from energy(to_timestamp(%s), to_timestamp(%s)) order by 1, 2, 3",
        start,
        start + 3600,
    )
    assert rows == [
        ("cpu", None, None, None, False, 36_000),
        ("idle", "GPU 0", None, None, False, 90_000),
        ("other", "GPU 0", None, None, False, 18_000),
        ("run", None, "20/1/1", "me", False, 180_000),
        ("run", None, "20/2/1", "me", True, 300_000),
        ("whole", "GPU 2", None, None, False, 180_000),
    ]
    energies = query(
        world,
        "select who, simulated from energy_shares(to_timestamp(%s), to_timestamp(%s)) order by joules desc",
        start,
        start + 3600,
    )
    assert energies[0] == ("me", True)
    assert set(energies[1:]) == {
        ("me", False), ("GPUs, undivided", False), ("GPUs with nothing to do", False), ("CPUs and memory", False),
        ("others' processes", False),
    }  # fmt: skip
    assert query(world, "select * from energy(to_timestamp(%s), to_timestamp(%s))", start - 7200, start - 3600) == []


@pytest.mark.parametrize("step", [1, 10, 60, 600])
def test_a_chart_of_devices_keeps_to_the_source_that_covers_it(world: World, now: float, step: int) -> None:
    start = now // 600 * 600 - 1800
    half = [start + at for at in range(600)]
    whole = [start + at for at in range(1200)]
    world.write(
        world.gauge("nvidia_smi_utilization_gpu_ratio", whole, [0.25] * 1200, {"uuid": uuid(0)}, "nvidia"),
        world.gauge("bench_gpu_utilization_ratio", half, [0.75] * 600, gpu(0), "nvml"),
        world.gauge("bench_gpu_utilization_ratio", half, [0.5] * 600, gpu(1), "nvml"),
    )
    world.refresh()

    def points(seconds: int, by: str = "device") -> list[Any]:
        return query(
            world,
            "select series, value, count(*)::int from series_chart(array['gpu_utilization'], to_timestamp(%s),"
            " to_timestamp(%s), %s, %s) group by 1, 2 order by 1, 2",
            start,
            start + seconds,
            step * 1000,
            by,
        )

    assert points(1200) == [("GPU 0", 0.25, 1200 // step), ("GPU 1", 0.5, 600 // step)]
    assert points(600) == [("GPU 0", 0.75, 600 // step), ("GPU 1", 0.5, 600 // step)], "both cover it"
    assert points(600, "host") == [("node1", 0.625, 600 // step)], "the mean over its GPUs"


@pytest.mark.parametrize("step", [1, 10, 60, 600])
def test_a_chart_of_devices_outlives_its_sources(world: World, now: float, step: int) -> None:
    start = now // 600 * 600 - 1800
    first, last = ([start + at for at in range(begin, begin + 600)] for begin in (0, 600))
    world.write(
        world.gauge("bench_gpu_utilization_ratio", first, [0.75] * 600, gpu(0), "nvml"),
        world.gauge("nvidia_smi_utilization_gpu_ratio", last, [0.25] * 600, {"uuid": uuid(0)}, "nvidia"),
    )
    world.refresh()
    rows = query(
        world,
        "select value, count(*)::int from series_chart(array['gpu_utilization'], to_timestamp(%s), to_timestamp(%s), %s)"
        " group by 1 order by 1",
        start,
        start + 1200,
        step * 1000,
    )
    assert rows == [(0.25, 600 // step), (0.75, 600 // step)]


@pytest.mark.parametrize("stops", [False, True])
def test_current_values_come_from_a_source_that_still_reports(world: World, now: float, stops: bool) -> None:
    times = [now - at for at in range(100, -1, -1)]
    preferred = times[:-30] if stops else times[::-10][::-1]
    world.write(
        world.gauge(
            "bench_gpu_utilization_ratio", preferred, [0.75] * len(preferred), gpu(0), "nvml", 1 if stops else 10
        ),
        world.gauge("nvidia_smi_utilization_gpu_ratio", times, [0.25] * len(times), {"uuid": uuid(0)}, "nvidia"),
    )
    assert query(world, "select utilization from fleet()") == [(0.25 if stops else 0.75,)]


def test_a_chart_keeps_to_its_bounds_and_to_so_many_curves(world: World, now: float) -> None:
    times = [now - 100 + at for at in range(100)]
    world.write(*(world.gauge("node_load1", times, [float(n)] * 100, {"n": str(n)}) for n in range(5)))
    rows = query(
        world,
        "select series, count(*)::int from series_chart(array['load'], to_timestamp(%s), to_timestamp(%s), 1000, 'n', 3)"
        " group by 1 order by 1",
        now - 50,
        now - 20,
    )
    assert rows == [("0", 30), ("1", 30), ("2", 30)]


def test_devices_that_charts_leave_out_are_named(world: World, now: float) -> None:
    world.write(
        *(
            world.gauge("bench_gpu_power_watts", [now - 2, now - 1], [70.0] * 2, gpu(number), "nvml")
            for number in range(4)
        )
    )

    def notices(most: int) -> list[Any]:
        return query(
            world, "select * from fleet_notice(to_timestamp(%s), to_timestamp(%s), %s)", now - 60, now + 1, most
        )

    assert notices(4) == []
    assert notices(2) == [("devices_left_out", "warning", [], {"total": 4, "drawn": 2, "devices": ["GPU 2", "GPU 3"]})]
