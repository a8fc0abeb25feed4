"""Each rule of ours on a run on which it has to fire, and on one on which it must not."""

from __future__ import annotations

import time

import pytest

from tests.ruled import GPUS, found, gpu, moment, spans
from tests.world import World


@pytest.fixture
def start() -> float:
    return float(time.time() // 100 * 100 - 3600)


def test_low_gpu_utilization(world: World, start: float) -> None:
    run = world.run(start, start + 400, gpu=GPUS[0])
    gpu(world, start, [0.9] * 100 + [0.3] * 100 + [0.9] * 100 + [1.0, 1.0, 1.0, 0.05] * 25)
    given = {"point": "1 s", "window": "50 s"}
    low, fluctuating = found(world, "LowGPUUtilization", run, start, start + 400, patience="0 s", **given)
    assert (low.started_at, low.ended_at) == (moment(start + 100), moment(start + 200))
    assert low.evidence == {"device": "GPU 0", "p95": 0.3, "p5": 0.3, "scope": "instance", "what": "low"}
    assert (fluctuating.started_at, fluctuating.ended_at) == (moment(start + 300), None)
    assert fluctuating.evidence["what"] == "fluctuating"
    assert not found(world, "LowGPUUtilization", run, start, start + 300, patience="200 s", **given)
    assert not found(world, "LowGPUUtilization", run, start, start + 300, patience="0 s", threshold_p95=0.2, **given)
    assert not found(world, "LowGPUUtilization", run, start, start + 400)  # shorter than what is published waits


def test_idle_device(world: World, start: float) -> None:
    run = world.run(start, start + 300, gpu=GPUS[0])
    gpu(world, start, [0.5] * 100 + [0.0] * 100 + [0.8] * 100)
    [firing] = found(world, "IdleDevice", run, start, start + 300, patience="90 s")
    assert (firing.started_at, firing.ended_at) == (moment(start + 100), moment(start + 200))
    assert firing.evidence == {"device": "GPU 0", "utilization": 0}
    assert not found(world, "IdleDevice", run, start, start + 300, patience="2 min")
    assert not found(world, "IdleDevice", run, start, start + 100, patience="20 s")


def test_the_work_of_others_on_a_gpu_keeps_it_busy_for_nobody_else(world: World, start: float) -> None:
    run = world.run(start, start + 200, gpu=GPUS[0])
    busy = world.run(start, start + 200, gpu=GPUS[0], position=2)
    gpu(world, start, [0.9] * 200)
    for one, share in ((run, 0.0), (busy, 0.9)):
        times = [start + 1 + at for at in range(200)]
        labels = {"UUID": GPUS[0], "run_id": one}
        world.write(world.gauge("bench_gpu_run_sm_utilization_ratio", times, [share] * 200, labels, "nvml"))
    [firing] = found(world, "IdleDevice", run, start, start + 200, patience="1 min")
    assert firing.ended_at is None
    assert firing.evidence["device"] == "GPU 0"
    assert not found(world, "IdleDevice", busy, start, start + 200, patience="1 min")


def test_max_initialization_time(world: World, start: float) -> None:
    slow = world.run(start, start + 2000)
    spans(world, slow, "phase", [(start, start + 1500)])
    spans(world, slow, "step", [(start + 1500, start + 1501)])
    [firing] = found(world, "MaxInitializationTime", slow, start, start + 2000)
    assert (firing.started_at, firing.ended_at) == (moment(start), moment(start + 1500))
    assert firing.evidence == {"seconds": 1500}
    assert not found(world, "MaxInitializationTime", slow, start, start + 2000, threshold="26 min")

    hanging = world.run(start, workload=2)
    assert not found(world, "MaxInitializationTime", hanging, start, start + 2000)  # it may never say what it does
    spans(world, hanging, "phase", [(start, None)])
    assert not found(world, "MaxInitializationTime", hanging, start, start + 1100)
    assert found(world, "MaxInitializationTime", hanging, start, start + 1300)[0].ended_at is None
