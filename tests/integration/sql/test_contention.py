"""What other programs used of a run's host and GPUs, in each flavour."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.contention import SECONDS, gpu_processes, gpu_run, host, process
from tests.support.world import World, one, rows

START = time.time() // 60 * 60 - 7200
GPU = "GPU-1"
CONTENTION = (
    "select cores, workload_cores, other_run_cores, other_cores, service_cores, other_runs, delay"
    " from run_contention where run_id = %s"
)


def contention(world: World, run: str) -> tuple[Any, ...]:
    # The samples of other runs were written after the summary.
    world.connection.execute("select summarise(run_id) from runs where ended_at is not null")
    found: tuple[Any, ...] = one(world, CONTENTION, run)
    return found


def test_cores_of_processes_outside_runs_are_those_of_the_host_without_the_runs_and_services(world: World) -> None:
    run = world.run(START, START + SECONDS)
    beside = world.run(START, START + SECONDS, position=2)
    host(world, START, busy=1.9, idle=0.1, pressure=0.9, services=0.2)
    process(world, run, START, 0.4)
    process(world, beside, START, 0.3)
    expected = pytest.approx((2, 0.7, 0, 1.0, 0.2, 0, 1.0 / 1.9))
    assert contention(world, run) == expected
    world.connection.execute("update series set quantity = 'gone'")
    assert one(world, CONTENTION, run) == expected, "it outlives the samples"


def test_the_contention_of_a_running_run_is_computed(world: World) -> None:
    start = time.time() - SECONDS
    run = world.run(start)
    host(world, start, busy=1.9, idle=0.1, pressure=0.9)
    process(world, run, start, 0.4)
    *_, delay = one(world, CONTENTION, run)
    assert delay == pytest.approx(1.5 / 1.9)


def test_runs_of_other_workloads_are_counted_for_the_time_in_common(world: World) -> None:
    run = world.run(START, START + SECONDS)
    other = world.run(START + SECONDS / 2, START + 2 * SECONDS, experiment=21)
    host(world, START, busy=1.5, idle=0.5, pressure=0.1, seconds=2 * SECONDS)
    process(world, run, START, 1.0)
    process(world, other, START + SECONDS / 2, 0.8, seconds=round(1.5 * SECONDS))
    cores, own, others, outside, _, runs, delay = contention(world, run)
    assert (cores, own, others, outside, runs) == pytest.approx((2, 1.0, 0.4, 0.1, 1), abs=0.02)
    assert delay == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("host_of", "available", "delay"),
    [
        pytest.param({"busy": 2.0, "idle": 0.0, "pressure": 1.0}, None, 0.5, id="other programs on half of the cores"),
        pytest.param({"busy": 2.0, "idle": 0.0, "pressure": 0.05}, None, 0.05, id="nothing waited"),
        pytest.param({"busy": 2.0, "idle": 0.0}, None, 0.5, id="no pressure measured, no core free"),
        pytest.param({"busy": 2.0, "idle": 0.8}, None, 0.2, id="no pressure measured, a part of a core free"),
        pytest.param({"busy": 2.0, "idle": 30.0, "pressure": 0.4}, None, 0.0, id="cores free at all times"),
        pytest.param({"busy": 2.0, "idle": 30.0, "pressure": 0.4}, 1.0, 0.4, id="confined to a core that may be full"),
        pytest.param({"busy": 2.0, "idle": 30.0}, 1.0, 0.5, id="confined, no pressure measured"),
        pytest.param({"busy": 1.0, "idle": 1.0, "pressure": 0.3}, None, 0.0, id="no other programs"),
    ],
)
def test_the_delay_is_bounded_by_waiting_and_by_the_cores_of_others(
    world: World, host_of: dict[str, Any], available: float | None, delay: float
) -> None:
    run = world.run(START, START + SECONDS)
    host(world, START, **host_of)
    process(world, run, START, 1.0, available=available)
    assert contention(world, run)[-1] == pytest.approx(delay)


@pytest.mark.parametrize(
    ("services", "delay"), [(0.3, 0.1), (0.4, 0.15), (1.2, 0.55)], ids=["those of one stack", "a few more", "busy ones"]
)
def test_busy_services_count_among_the_cores_of_others(world: World, services: float, delay: float) -> None:
    run = world.run(START, START + SECONDS)
    host(world, START, busy=2.0, idle=0.0, pressure=1.0, services=services)
    process(world, run, START, 1.8 - services)
    *_, other, service_cores, _, found = contention(world, run)
    assert (other, service_cores, found) == pytest.approx((0.2, services, delay))


@pytest.mark.parametrize(("pressure", "delay"), [(0.97, 0.97), (0.05, 0.05), (None, 0.9)])
def test_without_the_process_exporter_all_waiting_may_have_been_for_others(
    world: World, pressure: float | None, delay: float
) -> None:
    run = world.run(START, START + SECONDS)
    host(world, START, busy=1.9, idle=0.1, pressure=pressure)
    assert contention(world, run) == (pytest.approx(2), None, 0, None, None, 0, pytest.approx(delay))
    # Earlier releases stored no delay.
    world.connection.execute("update stored_contention set delay = null")
    assert one(world, CONTENTION, run)[-1] == (None if pressure is None else pytest.approx(pressure))


def test_without_the_exporters_host_and_process_nothing_is_known(world: World) -> None:
    unmeasured = world.run(START + 500, START + 600, position=2)
    assert contention(world, unmeasured) == (None, None, 0, None, None, 0, None)


@pytest.mark.parametrize(("share", "delay"), [(0.3, 0.3), (None, 1.0)])
def test_processes_outside_runs_on_the_gpu_may_cost_the_time_of_their_kernels(
    world: World, share: float | None, delay: float
) -> None:
    run = world.run(START, START + SECONDS, gpu=GPU)
    idle = world.run(START, START + SECONDS, position=2, gpu="GPU-2")
    host(world, START, busy=1.0, idle=7.0, pressure=0.0)
    process(world, run, START, 1.0)
    gpu_processes(world, START, GPU, processes=1, memory=3e9, share=share)
    gpu_processes(world, START, "GPU-2", processes=0, memory=0, share=0.0)
    world.connection.execute("select summarise(run_id) from runs")
    found = rows(
        world, "select run_id, gpu_other_processes, gpu_other_memory, gpu_other_share, delay from run_contention"
    )
    assert sorted(found) == sorted([(run, 1, 3e9, pytest.approx(delay), pytest.approx(delay)), (idle, 0, 0, 0, 0)])


def test_kernels_of_runs_of_other_workloads_count_for_the_time_in_common(world: World) -> None:
    run = world.run(START, START + SECONDS, gpu=GPU)
    partner = world.run(START, START + SECONDS, position=2, gpu=GPU)
    declared = world.run(START + SECONDS / 2, START + SECONDS, experiment=21, gpu=GPU)
    undeclared = world.run(START, START + SECONDS, experiment=22)
    elsewhere = world.run(START, START + SECONDS, experiment=23, gpu="GPU-2")
    gpu_run(world, run, START, GPU, 0.3)
    gpu_run(world, partner, START, GPU, 0.3)
    gpu_run(world, declared, START + SECONDS / 2, GPU, 0.2, seconds=SECONDS // 2)
    gpu_run(world, undeclared, START, GPU, 0.25)
    gpu_run(world, elsewhere, START, "GPU-2", 0.9)
    gpu_processes(world, START, GPU, processes=1, memory=3e9, share=0.1)
    world.connection.execute("select summarise(run_id) from runs")
    assert one(world, "select gpu_other_share, delay from run_contention where run_id = %s", run) == pytest.approx(
        (0.1 + 0.1 + 0.25, 0.45), abs=0.02
    )
