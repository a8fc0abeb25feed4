"""Built-in rules, each on a run where it must fire, and on one where it must not."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from tests.support.data.ruled import GPUS, cpu, found, gpu, moment, spans, write_metrics
from tests.support.data.trained import steps
from tests.support.world import World

EACH_SECOND = {"point": "1 s", "window": "50 s", "warm_up": "0 s"}


def intervals(start: float, seconds: list[float]) -> list[tuple[float, float | None]]:
    """Return steps one after the other that take so long."""
    ends = list(itertools.accumulate(seconds, initial=start))
    return list(itertools.pairwise(ends))


@pytest.fixture
def start() -> float:
    return float(time.time() // 100 * 100 - 3600)


def test_low_gpu_utilization(world: World, start: float) -> None:
    run = world.run(start, start + 400, gpu=GPUS[0])
    gpu(world, start, [0.9] * 100 + [0.3] * 100 + [0.9] * 100 + [1.0, 1.0, 1.0, 0.05] * 25)
    given = {"point": "1 s", "window": "50 s"}
    low, fluctuating = found(world, "LowGPUUtilization", run, start, start + 400, warm_up="0 s", **given)
    assert (low.started_at, low.ended_at) == (moment(start + 100), moment(start + 200))
    assert low.evidence == {"device": "GPU 0", "p95": 0.3, "p5": 0.3, "scope": "instance", "what": "low"}
    assert (fluctuating.started_at, fluctuating.ended_at) == (moment(start + 300), None)
    assert fluctuating.evidence["what"] == "fluctuating"
    assert not found(world, "LowGPUUtilization", run, start, start + 300, warm_up="200 s", **given)
    assert not found(world, "LowGPUUtilization", run, start, start + 300, warm_up="0 s", threshold_p95=0.2, **given)
    assert not found(world, "LowGPUUtilization", run, start, start + 400)  # shorter than what is published waits


def test_idle_device(world: World, start: float) -> None:
    run = world.run(start, start + 300, gpu=GPUS[0])
    gpu(world, start, [0.5] * 100 + [0.0] * 100 + [0.8] * 100)
    [firing] = found(world, "IdleDevice", run, start, start + 300, minimum_duration="90 s")
    assert (firing.started_at, firing.ended_at) == (moment(start + 100), moment(start + 200))
    assert firing.evidence == {"device": "GPU 0", "utilization": 0}
    assert not found(world, "IdleDevice", run, start, start + 300, minimum_duration="2 min")
    assert not found(world, "IdleDevice", run, start, start + 100, minimum_duration="20 s")


def test_the_work_of_others_on_a_gpu_keeps_it_busy_for_no_other(world: World, start: float) -> None:
    run = world.run(start, start + 200, gpu=GPUS[0])
    busy = world.run(start, start + 200, gpu=GPUS[0], position=2)
    gpu(world, start, [0.9] * 200)
    for one, share in ((run, 0.0), (busy, 0.9)):
        times = [start + 1 + at for at in range(200)]
        labels = {"UUID": GPUS[0], "run_id": one}
        world.write(world.gauge("bench_gpu_run_sm_utilization_ratio", times, [share] * 200, labels, "nvml"))
    [firing] = found(world, "IdleDevice", run, start, start + 200, minimum_duration="1 min")
    assert firing.ended_at is None
    assert firing.evidence["device"] == "GPU 0"
    assert not found(world, "IdleDevice", busy, start, start + 200, minimum_duration="1 min")


def test_max_initialization_time(world: World, start: float) -> None:
    slow = world.run(start, start + 2000)
    spans(world, slow, "phase", [(start, start + 1500)])
    spans(world, slow, "step", [(start + 1500, start + 1501)])
    [firing] = found(world, "MaxInitializationTime", slow, start, start + 2000)
    assert (firing.started_at, firing.ended_at) == (moment(start), moment(start + 1500))
    assert firing.evidence == {"seconds": 1500}
    assert not found(world, "MaxInitializationTime", slow, start, start + 2000, threshold="26 min")

    hanging = world.run(start, workload=2)
    assert not found(world, "MaxInitializationTime", hanging, start, start + 2000)  # it may never report a phase
    spans(world, hanging, "phase", [(start, None)])
    assert not found(world, "MaxInitializationTime", hanging, start, start + 1100)
    assert found(world, "MaxInitializationTime", hanging, start, start + 1300)[0].ended_at is None


def test_cpu_saturated(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    other = world.run(start, start + 60, workload=2)
    cpu(world, run, start, [0.5] * 19 + [1.9] * 15 + [1.7] + [1.9] * 16 + [0.5] * 9, available=2)
    cpu(world, other, start, [1.9] * 60, available=4)
    [firing] = found(world, "CpuSaturated", run, start, start + 60)
    assert (firing.started_at, firing.ended_at) == (moment(start + 20), moment(start + 50))
    assert firing.evidence == {
        "share": pytest.approx(0.95, abs=0.01),
        "cores": pytest.approx(1.9, abs=0.01),
        "available": 2,
    }
    assert not found(world, "CpuSaturated", run, start, start + 60, minimum_duration="40 s")
    assert not found(world, "CpuSaturated", other, start, start + 60)
    unknown = world.run(start, start + 60, workload=3)
    cpu(world, unknown, start, [1.9] * 60, available=None)
    assert not found(world, "CpuSaturated", unknown, start, start + 60)


def test_cpu_bottleneck(world: World, start: float) -> None:
    run = world.run(start, start + 100, gpu=GPUS[0])
    cpu(world, run, start, [3.9] * 100)
    gpu(world, start, [0.8] * 50 + [0.05] * 30 + [0.8] * 20)
    [firing] = found(world, "CPUBottleneck", run, start, start + 100, **EACH_SECOND)
    assert (firing.started_at, firing.ended_at) == (moment(start + 50), None)
    assert firing.evidence["share"] == pytest.approx(0.6)
    assert not found(world, "CPUBottleneck", run, start, start + 100, threshold=0.7, **EACH_SECOND)
    assert not found(world, "CPUBottleneck", run, start, start + 100, cpu_threshold=0.99, **EACH_SECOND)


def test_io_bottleneck(world: World, start: float) -> None:
    run = world.run(start, start + 100, gpu=GPUS[0])
    gpu(world, start, [0.3] * 100)
    write_metrics(world, start, {}, "host", node_pressure_io_waiting_seconds_total=[0.1] * 50 + [0.8] * 50)
    [firing] = found(world, "IOBottleneck", run, start, start + 100, **EACH_SECOND)
    assert (firing.started_at, firing.ended_at) == (moment(start + 50), None)
    assert firing.evidence == {"share": 1, "host_waiting": pytest.approx(0.8), "gpu": pytest.approx(0.3)}
    assert not found(
        world, "IOBottleneck", run, start, start + 100, "smdebug", **EACH_SECOND
    )  # its GPU is not idle enough


def test_batch_size(world: World, start: float) -> None:
    run = world.run(start, start + 100, gpu=GPUS[0])
    cpu(world, run, start, [1.0] * 100)
    gpu(world, start, [0.4] * 50 + [0.9] * 50)
    gpu(world, start, [10e9] * 100, metric="memory_used_bytes")
    gpu(world, start, [80e9] * 100, metric="memory_total_bytes")
    [firing] = found(world, "BatchSize", run, start, start + 100, **EACH_SECOND)
    assert (firing.started_at, firing.ended_at) == (moment(start), moment(start + 50))
    assert firing.evidence == {
        "cpu_p95": pytest.approx(0.25),
        "gpu_p95": pytest.approx(0.4),
        "gpu_memory_p95": pytest.approx(0.125),
    }
    assert not found(world, "BatchSize", run, start, start + 100, gpu_memory_threshold_p95=0.1, **EACH_SECOND)


def test_gpu_memory_increase(world: World, start: float) -> None:
    run = world.run(start, start + 150, gpu=GPUS[0])
    gpu(world, start, [10e9] * 50 + [40e9] * 100, metric="memory_used_bytes")
    gpu(world, start, [80e9] * 150, metric="memory_total_bytes")
    [firing] = found(world, "GPUMemoryIncrease", run, start, start + 150, **EACH_SECOND)
    assert (firing.started_at, firing.ended_at) == (moment(start + 50), moment(start + 100))
    assert firing.evidence == {
        "device": "GPU 0", "increase": pytest.approx(0.375), "from_bytes": pytest.approx(10e9), "to_bytes": pytest.approx(40e9),
    }  # fmt: skip
    assert not found(world, "GPUMemoryIncrease", run, start, start + 150, increase=0.4, **EACH_SECOND)


def test_load_balancing(world: World, start: float) -> None:
    run = world.run(start, start + 100, gpu=GPUS[0])
    world.connection.execute(
        "insert into placements (run_id, host, gpu_uuid, started_at, ended_at)"
        " select run_id, host, %s, started_at, ended_at from placements",
        (GPUS[1],),
    )
    world.connection.execute(
        "select rebuild_run_sets(place('gpu', host, gpu_uuid, null, null), started_at) from placements"
    )
    gpu(world, start, [0.95] * 100)
    gpu(world, start, [0.95] * 50 + [0.45] * 50, number=1)
    [firing] = found(world, "LoadBalancing", run, start, start + 100, **EACH_SECOND)
    assert (firing.started_at, firing.ended_at) == (moment(start + 50), None)
    assert firing.evidence == {
        "distance": 1, "devices": ["GPU 0, GPU 1"],
        "utilization": {"GPU 0": pytest.approx(0.95), "GPU 1": pytest.approx(0.45)},
    }  # fmt: skip
    assert not found(world, "LoadBalancing", run, start, start + 50, **EACH_SECOND)


def test_step_outlier(world: World, start: float) -> None:
    run = world.run(start, start + 400)
    spans(world, run, "step", intervals(start, ([1.0] * 10 + [1.25] * 10 + [4.0]) * 12))
    [firing] = found(world, "StepOutlier", run, start, start + 400, "smdebug")
    assert (firing.started_at, firing.ended_at) == (moment(start + 22.5), moment(start + 318))
    assert firing.evidence["outliers"] == 12
    assert firing.evidence["longest_seconds"] == 4
    assert not found(world, "StepOutlier", run, start, start + 400)  # not five standard deviations
    assert not found(world, "StepOutlier", run, start, start + 400, "smdebug", n_outliers=12)


def test_dataloader(world: World, start: float) -> None:
    run = world.run(start, start + 300, gpu=GPUS[0])
    gpu(world, start, [0.95] * 100 + [0.3] * 100 + [0.95] * 100)
    write_metrics(
        world, start, {"run_id": run}, bench_process_available_cores=8.0,
        bench_process_processes=[3.0] * 200 + [33.0] * 100,
    )  # fmt: skip
    assert not found(world, "Dataloader", run, start, start + 300), "it has no loader"
    steps(world, run, start, [1.0] * 300, [0.3] * 300)
    few, many = found(world, "Dataloader", run, start, start + 300)
    assert (few.started_at, few.ended_at, few.evidence["what"]) == (moment(start + 100), moment(start + 200), "too few")
    assert (many.started_at, many.ended_at, many.evidence["what"]) == (moment(start + 200), None, "too many")
    assert few.evidence["workers"] == 2
    assert not found(world, "Dataloader", run, start, start + 100)


def test_throttled(world: World, start: float) -> None:
    run = world.run(start, start + 120, gpu=GPUS[0])
    labels = {"UUID": GPUS[0], "gpu": "0"}
    hot = [0.0] * 60 + [1.0] * 60
    write_metrics(world, start, {**labels, "reason": "hw_thermal_slowdown"}, "nvml", bench_gpu_throttled=hot)
    write_metrics(
        world, start, {**labels, "reason": "applications_clocks_setting"}, "nvml", bench_gpu_throttled=[1.0] * 120
    )
    [firing] = found(world, "Throttled", run, start, start + 120)
    assert (firing.started_at, firing.ended_at) == (moment(start + 60), None)
    assert firing.evidence == {"device": "GPU 0", "reason": "hw_thermal_slowdown", "share": 1}
    assert not found(world, "Throttled", run, start, start + 60)


@pytest.mark.parametrize(
    ("memory", "labels", "metrics"),
    [
        ("GPU 0", {"UUID": GPUS[0], "gpu": "0"}, ("bench_gpu_memory_used_bytes", "bench_gpu_memory_total_bytes")),
        ("control group", {}, ("bench_process_proportional_memory_bytes", "bench_process_memory_limit_bytes")),
        ("host", None, ("node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes")),
    ],
)
def test_memory_near_limit(
    world: World, start: float, memory: str, labels: dict[str, str] | None, metrics: tuple[str, str]
) -> None:
    run = world.run(start, start + 60, gpu=GPUS[0])
    used = [50e9] * 20 + [78e9] * 40
    if labels is None:
        used = [80e9 - one for one in used]
    both: dict[str, Any] = {metrics[0]: used, metrics[1]: 80e9}
    exporter = {"GPU 0": "nvml", "host": "host"}.get(memory, "process")
    write_metrics(world, start, {"run_id": run} if labels == {} else labels or {}, exporter, **both)
    [firing] = found(world, "MemoryNearLimit", run, start, start + 60)
    assert (firing.started_at, firing.ended_at) == (moment(start + 20), None)
    assert firing.evidence == {"memory": memory, "used_bytes": pytest.approx(78e9), "there_bytes": pytest.approx(80e9)}
    assert not found(world, "MemoryNearLimit", run, start, start + 60, threshold=0.99)


def test_straggler_rank(world: World, start: float) -> None:
    run = world.run(start, start + 100)
    for pid, seconds in ((1, 1.0), (2, 1.0), (3, 1.5), (4, 1.1)):
        spans(world, run, "step", intervals(start, [seconds] * 40), pid=pid)
    [firing] = found(world, "StragglerRank", run, start, start + 100)
    assert (firing.started_at, firing.ended_at) == (moment(start), moment(start + 60))
    assert firing.evidence == {"pid": 3, "ranks": 4, "step_seconds": 1.5, "others_seconds": 1.0, "longer": 0.5}
    assert not found(world, "StragglerRank", run, start, start + 100, threshold=0.6)
    alone = world.run(start, start + 100, workload=2)
    spans(world, alone, "step", intervals(start, [1.0] * 40))
    assert not found(world, "StragglerRank", alone, start, start + 100)


def test_noisy_neighbour(world: World, start: float) -> None:
    run = world.run(start, start + 200, gpu=GPUS[0])
    world.run(start + 50, start + 150, gpu=GPUS[0], workload=2)
    spans(world, run, "step", intervals(start, [1.0] * 50 + [2.0] * 50 + [1.0] * 50))
    [firing] = found(world, "NoisyNeighbour", run, start, start + 200)
    assert firing.evidence["longer"] == pytest.approx(1)
    assert (firing.started_at, firing.ended_at) == (moment(start + 50), moment(start + 150))
    assert firing.evidence["neighbours"] == ["20/2/1 train"]
    assert not found(world, "NoisyNeighbour", run, start, start + 200, threshold=1.5)
    assert not found(world, "NoisyNeighbour", run, start, start + 50)


def test_overall_system_usage_never_fires(world: World, start: float) -> None:
    assert not found(world, "OverallSystemUsage", world.run(start, start + 60), start, start + 60)
