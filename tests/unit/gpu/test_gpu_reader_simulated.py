"""The reader on simulated GPUs, kept busy by real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pynvml

from hypergauge.gpu.sampling.reader import GpuReader
from hypergauge.gpu.sampling.sample import GpuSample, Sample
from hypergauge.simulation import SimulatedNvml, World
from tests.support.waiting import HUNG_SECONDS


@contextmanager
def busy_on(*uuids: str) -> Iterator[list[int]]:
    """Keep each of `uuids` busy with a process, and yield their pids."""
    command = [sys.executable, "-c", "while True: pass"]
    environment = dict(os.environ, BENCH_RUN_ID=uuid.uuid4().hex)
    running = [subprocess.Popen(command, env=environment | {"CUDA_VISIBLE_DEVICES": uuid}) for uuid in uuids]
    try:
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def read_until(reader: GpuReader, holds: Callable[[Sample], bool]) -> Sample:
    deadline = time.monotonic() + HUNG_SECONDS
    while not holds(sample := reader.read()):
        assert time.monotonic() < deadline, sample
        time.sleep(0.2)
    return sample


def test_a_process_on_a_gpu_is_seen_with_its_utilization() -> None:
    world = World.open("2xH100")
    reader = GpuReader(SimulatedNvml(world))
    idle, other = reader.read().gpus
    with busy_on(idle.gpu.uuid) as pids:

        def is_busy(sample: Sample) -> bool:
            gpu = sample.gpus[0]
            metrics = {**gpu.metrics, **gpu.devices[0].metrics}
            return bool(
                gpu.processes
                and gpu.processes[0].sm_utilization
                and metrics.get("sm_active")
                and metrics["utilization"]
                and metrics.get("power_peak", 0) > idle.metrics["power"]
            )

        busy, beside = read_until(reader, is_busy).gpus
    assert [process.pid for process in busy.processes] == pids
    assert busy.processes[0].memory_bytes
    assert beside.processes == ()
    assert busy.metrics["power"] > idle.metrics["power"]
    assert busy.metrics["energy"] > idle.metrics["energy"]
    assert beside.metrics["power"] == other.metrics["power"]
    assert 0 < busy.devices[0].metrics["utilization"] <= 1
    assert beside.metrics["power_peak"] == beside.metrics["power"]

    def is_idle(sample: Sample) -> bool:
        gpu = sample.gpus[0]
        metrics = {**gpu.metrics, **gpu.devices[0].metrics}
        return gpu.processes == () and (metrics["utilization"], metrics["power_peak"]) == (0.0, metrics["power"])

    read_until(reader, is_idle)
    reader.close()


def test_processes_on_instances_are_seen_there() -> None:
    reader = GpuReader(SimulatedNvml(World.open("1xH100:1x4g.40gb+1x3g.40gb")))
    (gpu,) = reader.read().gpus
    with busy_on(*(instance.uuid for instance in gpu.gpu.mig)) as pids:

        def all_busy(sample: Sample) -> bool:
            gpu = sample.gpus[0]
            return len(gpu.processes) == 2 and all(device.metrics.get("sm_active") for device in gpu.devices)

        (gpu,) = read_until(reader, all_busy).gpus
    instance_of = {process.pid: process.gpu_instance_id for process in gpu.processes}
    assert instance_of == {pids[0]: 1, pids[1]: 2}
    assert {process.sm_utilization for process in gpu.processes} == {None}
    reader.close()


def test_a_simulated_gpu_is_lost_and_returns() -> None:
    world = World.open("2xA100")
    reader = GpuReader(SimulatedNvml(world))
    first, second = (gpu.gpu.uuid for gpu in reader.read().gpus)
    world.xid(0, 79)
    world.lose(0)
    sample = reader.read()
    assert [gpu.gpu.uuid for gpu in sample.gpus] == [second]
    assert sample.lost == {first: "GPU is lost"}
    world.restore(0)
    sample = reader.read()
    assert ([gpu.gpu.uuid for gpu in sample.gpus], sample.lost) == ([first, second], {})
    reader.close()


def test_the_driver_is_restarted() -> None:
    world = World.open("1xT4")
    reader = GpuReader(SimulatedNvml(world))
    before = reader.read()
    world.reload_driver()
    after = reader.read()
    assert [gpu.gpu for gpu in after.gpus] == [gpu.gpu for gpu in before.gpus]
    assert after.lost == {}
    reader.close()


def test_throttling_and_xid_errors_are_read() -> None:
    world = World.open("1xL4")
    reader = GpuReader(SimulatedNvml(world))
    reader.read()
    world.throttle(0, pynvml.nvmlClocksEventReasonSwPowerCap)
    world.xid(0, 31)
    (gpu,) = reader.read().gpus
    assert on(gpu) >= {"sw_power_cap"}
    assert (gpu.xids, gpu.last_xid) == ({31: 1}, 31)
    reader.close()


def on(gpu: GpuSample) -> set[str]:
    return {reason for reason, holds in (gpu.throttle or {}).items() if holds}
