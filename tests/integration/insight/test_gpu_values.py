"""Metrics of runs on GPUs, alone and shared: each has its owner and counts once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

import pytest
from rich.console import Console

from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.dashboards.terminal.comparison_table import comparison_table
from hypergauge.insight.comparison.comparison import Entry, compare
from hypergauge.sql.queries.traces import counters_of
from tests.support.world import HOST, World

FIRST, SECOND = "GPU-1", "GPU-2"
SECONDS = 60
MIB = 2**20


@pytest.fixture
def start() -> float:
    return time.time() // 60 * 60 - 3600


def curve(world: World, metric: str, seconds: Iterable[int], value: float, start: float, **labels: str) -> None:
    """Write a counter at some seconds after `start`."""
    times = [start + 0.5 + at for at in seconds]
    exporter = "dcgm" if metric.startswith("DCGM") else "nvml"
    world.write(world.gauge(metric, times, [value] * len(times), labels, exporter))


def summarised(world: World, run: str, quantity: str) -> dict[str, Any]:
    """Return the mean by scope, over all devices."""
    rows = world.connection.execute(
        "select scope, mean from run_summary where run_id = %s and quantity = %s and metric is null and device is null",
        (run, quantity),
    ).fetchall()
    return {scope: pytest.approx(mean) for scope, mean in rows}


def chart(world: World, run: str, quantity: str) -> dict[str, Any]:
    """Return the mean of the points of a chart by scope."""
    rows = world.connection.execute(
        "select scope, avg(value) from run_chart(array[%s], array[%s], null, null, 1000, true, 10) group by 1",
        (run, quantity),
    ).fetchall()
    return {scope: pytest.approx(mean) for scope, mean in rows}


def trace(world: World, run: str, quantity: str) -> dict[tuple[str, str], Any]:
    """Return the mean of a trace's values by scope and device."""
    found: dict[tuple[str, str], list[float]] = {}
    for counter in counters_of(world.connection, run, [quantity]):
        found.setdefault((counter.scope, counter.device), []).append(counter.value)
    return {key: pytest.approx(fmean(values)) for key, values in found.items()}


def entries(world: World, **options: Any) -> list[Entry]:
    return list(compare(world.connection, ["20"], **options).entries)


@pytest.mark.parametrize(
    ("preferred", "wins"),
    [
        (range(SECONDS), "preferred"),
        (range(3, SECONDS), "preferred"),  # its first scrapes gave nothing
        (range(SECONDS - 20, SECONDS), "other"),  # started for another run meanwhile
        (range(20), "other"),  # ended by itself
        ([], "other"),
    ],
)
def test_the_preferred_source_counts_where_it_covers_the_run(
    world: World, start: float, preferred: Iterable[int], wins: str
) -> None:
    run = world.run(start, start + SECONDS, gpu=FIRST)
    curve(world, "bench_gpu_sm_active_ratio", range(SECONDS), 0.5, start, UUID=FIRST)
    curve(world, "DCGM_FI_PROF_SM_ACTIVE", preferred, 0.75, start, UUID=FIRST)
    expected = {"instance": 0.75 if wins == "preferred" else 0.5}
    assert summarised(world, run, "gpu_sm_active") == expected
    assert chart(world, run, "gpu_sm_active") == expected
    assert trace(world, run, "gpu_sm_active") == {("instance", FIRST): expected["instance"]}


def test_one_of_two_exporters_counts(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS, gpu=FIRST)
    for metric, value in {
        "bench_gpu_power_watts": 300.0,
        "bench_gpu_energy_joules_total": 300.0,
        "DCGM_FI_DEV_POWER_USAGE": 301.0,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 300_000.0,
        "DCGM_FI_DEV_FB_USED": 1024.0,
        "bench_gpu_memory_used_bytes": 1000.0 * MIB,
    }.items():
        curve(world, metric, range(SECONDS), value, start, UUID=FIRST)
    assert summarised(world, run, "gpu_power") == chart(world, run, "gpu_power") == {"instance": 300.0}
    assert summarised(world, run, "gpu_memory_used") == {"instance": 1000.0 * MIB}


def place(world: World, run: str, gpu: str, start: float) -> None:
    world.connection.execute(
        "insert into placements (run_id, host, gpu_uuid, started_at, ended_at)"
        " values (%s, %s, %s, to_timestamp(%s), to_timestamp(%s))",
        (run, HOST, gpu, start, start + SECONDS),
    )


def test_a_source_of_some_gpus_does_not_hide_the_others(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS, gpu=FIRST)
    place(world, run, SECOND, start)
    curve(world, "bench_gpu_graphics_active_ratio", range(SECONDS), 0.9, start, UUID=FIRST)  # of the newer GPU alone
    for gpu, value in {FIRST: 1.0, SECOND: 0.2}.items():
        curve(world, "bench_gpu_utilization_ratio", range(SECONDS), value, start, UUID=gpu)
    assert summarised(world, run, "gpu_utilization") == chart(world, run, "gpu_utilization") == {"instance": 0.6}
    assert trace(world, run, "gpu_utilization") == {("instance", FIRST): 1.0, ("instance", SECOND): 0.2}


def test_each_gpu_is_taken_from_a_source_that_has_it(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS, gpu=FIRST)
    place(world, run, SECOND, start)
    curve(world, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", range(SECONDS), 0.9, start, UUID=FIRST)
    curve(world, "bench_gpu_utilization_ratio", range(SECONDS), 0.3, start, UUID=SECOND)
    assert summarised(world, run, "gpu_utilization") == chart(world, run, "gpu_utilization") == {"instance": 0.6}
    assert trace(world, run, "gpu_utilization") == {("instance", FIRST): 0.9, ("instance", SECOND): 0.3}


@pytest.mark.parametrize(("alone", "scope"), [(5, "device"), (30, "device"), (45, "device"), (55, "instance")])
def test_a_run_that_shares_its_gpu_for_a_while(world: World, start: float, alone: int, scope: str) -> None:
    run = world.run(start, start + SECONDS, gpu=FIRST)
    world.run(start + alone, start + SECONDS, gpu=FIRST, position=2)
    curve(world, "bench_gpu_utilization_ratio", range(alone), 0.5, start, UUID=FIRST)
    curve(world, "bench_gpu_utilization_ratio", range(alone, SECONDS), 1.0, start, UUID=FIRST)
    # In scope `device`, a value is one of all of the run's time on the GPU, and so is the default.
    values = {"instance": 0.5, "device": (0.5 * alone + 1.0 * (SECONDS - alone)) / SECONDS}
    value = values[scope]
    assert summarised(world, run, "gpu_utilization") == values
    assert chart(world, run, "gpu_utilization") == {scope: value}
    assert trace(world, run, "gpu_utilization") == {(scope, FIRST): value}
    first, second = entries(world)
    assert first.scopes["gpu_utilization"] == scope
    assert first.values["gpu_utilization"] == pytest.approx(value)
    assert first.gpu_coverage == pytest.approx(1.0)
    assert second.scopes["gpu_utilization"] == "device"
    [selected, _] = entries(world, scope="instance")
    assert selected.values["gpu_utilization"] == pytest.approx(0.5)


# Watts by which each run adds to its GPU, and what the GPU draws besides; run 1 is alone on an instance of the first.
WATTS = {1: 140.0, 2: 150.0, 3: 80.0}
IDLE, OTHER = {FIRST: 60.0, SECOND: 70.0}, {FIRST: 0.0, SECOND: 5.0}


@pytest.fixture
def shared(world: World, start: float) -> dict[int, str]:
    """One run alone on a MIG instance, two that share a GPU, and a minute of an exporter on both GPUs."""
    runs = {
        1: world.run(start, start + SECONDS, gpu=FIRST, gpu_instance=7, name="alone"),
        2: world.run(start, start + SECONDS, gpu=SECOND, position=2, name="shares"),
        3: world.run(start, start + SECONDS, gpu=SECOND, position=3, name="shares too"),
    }
    world.write(world.scraped([(start + at, exposition(runs, at)) for at in range(SECONDS)], "nvml"))
    return runs


def exposition(runs: Mapping[int, str], at: int) -> bytes:
    """Return the exposition `at` seconds after the start."""
    instance, other = 'GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"', 'GPU_I_ID="8",GPU_I_PROFILE="1g.10gb"'
    lines = [
        f'bench_gpu_graphics_active_ratio{{UUID="{FIRST}",gpu="0",{instance}}} 0.25',
        f'bench_gpu_graphics_active_ratio{{UUID="{FIRST}",gpu="0",{other}}} 0.9',
        f'bench_gpu_memory_used_bytes{{UUID="{FIRST}",gpu="0",{instance}}} {1000 * MIB}',
        f'bench_gpu_memory_used_bytes{{UUID="{FIRST}",gpu="0",{other}}} {9000 * MIB}',
        f'bench_gpu_graphics_active_ratio{{UUID="{SECOND}",gpu="1"}} 0.95',
        f'bench_gpu_memory_used_bytes{{UUID="{SECOND}",gpu="1"}} {7000 * MIB}',
    ]
    methods = {1: "instance_activity", 2: "sm_time", 3: "sm_time"}
    for number, run in runs.items():
        gpu, labels = (FIRST, f",{instance}") if number == 1 else (SECOND, "")
        who = f'UUID="{gpu}",run_id="{run}"{labels}'
        joules = WATTS[number] * at
        lines += [
            f"bench_gpu_run_memory_bytes{{{who}}} {number * 1000 * MIB}",
            f'bench_gpu_attributed_energy_joules_total{{{who},method="{methods[number]}"}} {joules}',
        ]
    for gpu, numbers in {FIRST: [1], SECOND: [2, 3]}.items():
        watts = IDLE[gpu] + OTHER[gpu] + sum(WATTS[number] for number in numbers)
        lines += [
            f'bench_gpu_power_watts{{UUID="{gpu}"}} {watts}',
            f'bench_gpu_energy_joules_total{{UUID="{gpu}"}} {1e6 + watts * at}',
            f'bench_gpu_idle_energy_joules_total{{UUID="{gpu}"}} {IDLE[gpu] * at}',
            f'bench_gpu_other_energy_joules_total{{UUID="{gpu}"}} {OTHER[gpu] * at}',
        ]
    return "\n".join([*lines, ""]).encode()


def test_a_run_alone_on_an_instance_sees_that_alone(world: World, shared: Mapping[int, str]) -> None:
    assert summarised(world, shared[1], "gpu_utilization") == {"instance": 0.25}
    assert summarised(world, shared[1], "gpu_memory_used") == {"process": 1000 * MIB, "instance": 1000 * MIB}
    alone, _, _ = entries(world)
    assert alone.values["gpu_utilization"] == pytest.approx(0.25)
    assert alone.scopes == {
        "gpu_utilization": "instance",
        "gpu_peak_memory_bytes": "process",
        "gpu_power_watts": "device",  # the whole device's: an instance has none of its own
        "gpu_energy_joules": "process",
    }


def test_runs_that_share_a_gpu_have_values_of_their_own(world: World, shared: Mapping[int, str]) -> None:
    _, one, other = entries(world)
    for entry, number in ((one, 2), (other, 3)):
        assert entry.scopes["gpu_utilization"] == "device"
        assert entry.values["gpu_utilization"] == pytest.approx(0.95)
        assert entry.values["gpu_peak_memory_bytes"] == number * 1000 * MIB
        assert entry.scopes["gpu_peak_memory_bytes"] == "process"
        assert entry.energy_method == "sm_time"
        assert chart(world, shared[number], "gpu_memory_used") == {"process": number * 1000 * MIB}


def test_the_energies_add_up(world: World, shared: Mapping[int, str]) -> None:
    joules = {number: entry.values["gpu_energy_joules"] for number, entry in enumerate(entries(world), 1)}
    assert joules == {number: pytest.approx(watts * (SECONDS - 1)) for number, watts in WATTS.items()}
    totals: dict[str, float] = dict(
        world.connection.execute(
            "select quantity, total from run_summary where run_id = %s and scope = 'device' and metric is null",
            (shared[2],),
        ).fetchall()
    )
    whole = world.connection.execute(
        "select total from run_summary where run_id = %s and metric = 'bench_gpu_energy_joules_total'", (shared[2],)
    ).fetchone()
    assert whole is not None
    parts = joules[2] + joules[3] + totals["gpu_energy_idle"] + totals["gpu_energy_other"]
    assert parts == pytest.approx(whole[0], rel=1e-6)
    [workload] = entries(world, by="workload")
    assert workload.values["gpu_energy_joules"] == pytest.approx(sum(WATTS.values()) * (SECONDS - 1))
    assert workload.values["gpu_utilization"] == pytest.approx((0.25 + 0.95 + 0.95) / 3)
    assert workload.scopes["gpu_utilization"] == "device"
    assert workload.energy_method == "instance_activity+sm_time"


def test_a_runs_energy_counts_whatever_the_method_and_the_gap(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS, gpu=FIRST)
    labels = {"UUID": FIRST, "run_id": run}
    first, second = {**labels, "method": "sm_time"}, {**labels, "method": "process_count"}
    metric = "bench_gpu_attributed_energy_joules_total"
    times = [start + 1.0 + at for at in range(30)]
    # The second method's rate stands for all the time since it was last heard of.
    late = world.gauge(metric, [times[-1]], [2.0], second, "nvml", dt=20.0)
    world.write(world.gauge(metric, times, [100.0] * 30, first, "nvml"), late)
    [entry] = entries(world)
    assert entry.values["gpu_energy_joules"] == pytest.approx(100 * 30 + 2 * 20)
    assert entry.energy_method == "process_count+sm_time"


def test_without_shares_only_a_run_alone_has_its_gpus_energy(world: World, start: float) -> None:
    world.run(start, start + SECONDS, gpu=FIRST)
    for position in (2, 3):
        world.run(start, start + SECONDS, gpu=SECOND, position=position)
    for gpu in (FIRST, SECOND):
        curve(world, "DCGM_FI_DEV_POWER_USAGE", range(SECONDS), 300.0, start, UUID=gpu)
    alone, *others = entries(world)
    assert (alone.values["gpu_energy_joules"], alone.energy_method) == (300.0 * SECONDS, "whole_gpu")
    assert alone.has_idle_energy
    for other in others:
        assert "gpu_energy_joules" not in other.values
        assert other.energy_method is None
        assert other.scopes["gpu_power_watts"] == "device"
    # A sum of one of three energies is not that of the workload.
    [workload] = entries(world, by="workload")
    assert "gpu_energy_joules" not in workload.values
    assert [(one.metric, one.run) for one in workload.missing] == [
        ("gpu_energy_joules", "20/1/2"), ("gpu_energy_joules", "20/1/3"),
    ]  # fmt: skip


def test_energies_with_and_without_idle_power_are_distinguished(world: World, start: float) -> None:
    world.run(start, start + SECONDS, gpu=FIRST)
    split = world.run(start, start + SECONDS, gpu=SECOND, position=2)
    for gpu in (FIRST, SECOND):
        curve(world, "DCGM_FI_DEV_POWER_USAGE", range(SECONDS), 300.0, start, UUID=gpu)
    curve(world, "bench_gpu_attributed_energy_joules_total", range(SECONDS), 200.0, start, UUID=SECOND, run_id=split)
    found = compare(world.connection, ["20"], baseline="20/1/1")
    assert [entry.has_idle_energy for entry in found.entries] == [True, False]
    assert "gpu_power_watts" in found.entries[1].changes
    assert "gpu_energy_joules" not in found.entries[1].changes
    out = Console(width=200)
    with out.capture() as shown:
        out.print(comparison_table(sheet(found)))
    text = shown.get()
    assert "18.0 kJ‡" in text
    assert "12.0 kJ " in text
    assert "\n‡ " in text


def test_an_energy_divided_evenly_is_compared_with_its_like(world: World, start: float) -> None:
    alone = world.run(start, start + SECONDS, gpu=FIRST)
    pair = [world.run(start, start + SECONDS, gpu=SECOND, workload=2, position=n, collocation="MPS") for n in (1, 2)]
    for run, gpu, method in ((alone, FIRST, "sm_time"), *((run, SECOND, "mps_clients") for run in pair)):
        labels = {"UUID": gpu, "run_id": run, "method": method}
        curve(world, "bench_gpu_attributed_energy_joules_total", range(SECONDS), 200.0, start, **labels)
    found = compare(world.connection, ["20"], baseline="20/1/1")
    assert [name for _, name, *_ in sheet(found).lines] == ["train", "train · MPS", "train · MPS"]
    first, *divided = found.entries
    assert [one.energy_divided for one in (first, *divided)] == [False, True, True]
    assert all("gpu_energy_joules" in one.values and "gpu_energy_joules" not in one.changes for one in divided)
    _, other = compare(world.connection, ["20/2"], baseline="20/2/1").entries
    assert other.changes["gpu_energy_joules"] == 0
    _, workload = compare(world.connection, ["20"], by="workload", baseline="20/1").entries
    assert workload.changes["gpu_energy_joules"] == pytest.approx(1), "the energy of both is known"


def test_simulated_power_and_energy_count_when_requested(world: World, start: float) -> None:
    run = world.run(start, start + SECONDS, gpu=FIRST, simulated=True)
    world.run(start, start + SECONDS, position=2)
    labels = {"UUID": FIRST, "simulated": "true"}
    curve(world, "bench_gpu_power_watts", range(SECONDS), 300.0, start, **labels)
    curve(world, "bench_gpu_utilization_ratio", range(30), 0.5, start, **labels)
    curve(world, "bench_gpu_attributed_energy_joules_total", range(SECONDS), 200.0, start, run_id=run, **labels)
    simulated, bare = entries(world)
    assert (simulated.simulated, bare.simulated) == (True, False)
    assert set(simulated.values) == {"duration_seconds", "gpu_utilization"}
    assert "gpu_power" not in simulated.quantities
    assert simulated.gpu_coverage == pytest.approx(0.5)
    assert bare.gpu_coverage is None
    [wanted, _] = entries(world, simulated=True)
    assert wanted.values["gpu_energy_joules"] == pytest.approx(200.0 * SECONDS)
    assert wanted.values["gpu_power_watts"] == pytest.approx(300.0)
    [first, _] = compare(world.connection, ["20"]).as_dict()["runs"]
    assert first["simulated"] is True
    assert first["gpu_coverage"] == pytest.approx(0.5)
