"""Scenarios of measurement: a run and its neighbour on GPUs, measured by several sources with gaps."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from hypothesis import strategies as st

from hypergauge.collector.spool.records import SpoolRecord
from tests.support.world import HOST, World

GPUS = ("GPU-1", "GPU-2")
SECONDS = 90
# A sample stands for a quarter of the second in whose middle it is, so that no run set begins or ends within one.
MIDDLE, LASTS = 0.5, 0.25

# Targets and metrics that measure the same.
GPU_SOURCES = [
    ("nvml", "bench_gpu_power_watts"),
    ("dcgm", "DCGM_FI_DEV_POWER_USAGE"),
    ("dcgm2", "DCGM_FI_DEV_POWER_USAGE"),
    ("nvml", "bench_gpu_utilization_ratio"),
    ("dcgm", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    ("dcgm2", "DCGM_FI_DEV_GPU_UTIL"),
]
COMBINE: dict[str, Callable[[Any], float]] = {"gpu_power": sum, "gpu_utilization": fmean, "cpu_usage": sum}


@dataclass(frozen=True)
class Measurement:
    """Seconds in which a target measured something: all from `first` to `last` but for one gap."""

    first: int
    last: int
    gap: int
    gap_length: int

    def seconds(self) -> list[int]:
        return [at for at in range(self.first, self.last) if not self.gap <= at < self.gap + self.gap_length]


@dataclass(frozen=True)
class Scenario:
    """A run of `start` to `end`, another one that shares the first GPU for a while, and what measured them."""

    start: int
    end: int
    gpus: int
    shared: tuple[int, int] | None
    gpu: dict[tuple[str, str, str], Measurement]  # by target, metric and GPU
    cpu: dict[str, Measurement]  # by target
    pods: bool
    phase: tuple[int, int]
    state: str
    seed: int


@st.composite
def measurements(draw: st.DrawFn) -> Measurement | None:
    if draw(st.booleans()) and draw(st.booleans()):
        return None
    # Mostly all the time: else nothing that is preferred would ever cover a run.
    first = draw(st.sampled_from([0, 0, 0, 10, 40]))
    last = draw(st.sampled_from([SECONDS, SECONDS, SECONDS, 70, 30]))
    return Measurement(first, last, draw(st.integers(0, SECONDS)), draw(st.sampled_from([0, 0, 3, 25])))


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    start = draw(st.sampled_from([0, 5]))
    end = draw(st.integers(start + 20, SECONDS))
    gpus = draw(st.integers(1, 2))
    shared = draw(st.none() | st.tuples(st.integers(0, SECONDS - 10), st.integers(1, SECONDS)))
    gpu = {
        (target, metric, one): found
        for target, metric in GPU_SOURCES
        for one in GPUS
        if (found := draw(measurements()))
    }
    cpu = {target: found for target in ("process", "host", "node_exporter") if (found := draw(measurements()))}
    phase = sorted(draw(st.tuples(st.integers(start, end), st.integers(start, end))))
    return Scenario(
        start, end, gpus, shared, gpu, cpu, draw(st.booleans()), (phase[0], phase[1] + 1),
        draw(st.sampled_from(["summarised", "ended", "running"])), draw(st.integers(0, 1000)),
    )  # fmt: skip


# Two targets in a line, of which one has no sample in the scope.
SILENT_TARGET = Scenario(
    start=0, end=42, gpus=2, shared=(3, 77),
    gpu={
        ("dcgm", "DCGM_FI_DEV_POWER_USAGE", "GPU-2"): Measurement(0, 30, 4, 3),
        ("dcgm2", "DCGM_FI_DEV_POWER_USAGE", "GPU-1"): Measurement(10, 70, 42, 0),
        ("dcgm2", "DCGM_FI_DEV_POWER_USAGE", "GPU-2"): Measurement(0, 70, 88, 0),
    },
    cpu={}, pods=False, phase=(7, 19), state="running", seed=318,
)  # fmt: skip


def build(world: World, scenario: Scenario) -> tuple[str, float]:
    """Start and measure the runs; return the one under test, and the time of second 0."""
    zero = time.time() // 600 * 600 - 7200
    start, end = zero + scenario.start, zero + scenario.end
    running = scenario.state == "running"
    run = world.run(start, gpu=GPUS[0])
    if scenario.gpus == 2:
        world.connection.execute(
            "insert into placements (run_id, host, gpu_uuid, started_at) values (%s, %s, %s, to_timestamp(%s))",
            (run, HOST, GPUS[1], start),
        )
    if not running:
        world.end(run, start, end)
    if scenario.shared:
        begin, length = scenario.shared
        world.run(zero + begin, zero + begin + length, position=2, gpu=GPUS[0])
    dice = random.Random(scenario.seed)

    def gauge(target: str, metric: str, measurement: Measurement, labels: dict[str, str]) -> SpoolRecord:
        times = [zero + at + MIDDLE for at in measurement.seconds()]
        return world.gauge(metric, times, [dice.random() * 100 for _ in times], labels, target, LASTS)

    records = []
    for (target, metric, gpu), measurement in scenario.gpu.items():
        # dcgm-exporter gives a line for each pod of a GPU, of which the greatest counts.
        pods = [{"pod": "a"}, {"pod": "b"}] if scenario.pods and metric.startswith("DCGM") else [{}]
        records += [gauge(target, metric, measurement, {"UUID": gpu, **pod}) for pod in pods]
    for target, measurement in scenario.cpu.items():
        if target == "process":
            records.append(gauge(target, "bench_process_cpu_seconds_total", measurement, {"run_id": run}))
        else:
            records += [
                gauge(target, "node_cpu_seconds_total", measurement, {"cpu": cpu, "mode": "user"}) for cpu in "01"
            ]
    world.write(*[record for record in records if len(record.times)])
    world.refresh()
    world.connection.execute(
        "delete from stored_duplicates; delete from stored_summaries; update runs set summarised = false"
    )
    if scenario.state == "summarised":
        world.connection.execute("select summarise(run_id) from runs where ended_at is not null")
    return run, zero
