"""Samples of a host that runs share with other programs."""

from __future__ import annotations

from tests.support.world import World

__all__ = ["SECONDS", "gpu_processes", "gpu_run", "host", "process"]

SECONDS = 20


def _times(start: float, seconds: int) -> list[float]:
    return [start + 1 + second for second in range(seconds)]


def host(
    world: World, start: float, *, busy: float, idle: float, pressure: float | None = None, services: float | None = None,
    seconds: int = SECONDS,
) -> None:  # fmt: skip
    """Write busy and idle cores of the host, the share of time in which a process waited, and the cores of services."""
    times = _times(start, seconds)
    for mode, cores in (("user", busy), ("idle", idle)):
        world.write(world.gauge("node_cpu_seconds_total", times, [cores] * seconds, {"cpu": "0", "mode": mode}))
    if pressure is not None:
        world.write(world.gauge("node_pressure_cpu_waiting_seconds_total", times, [pressure] * seconds))
    if services is not None:
        world.write(world.gauge("bench_services_cpu_seconds_total", times, [services] * seconds, {}, "process"))


def process(
    world: World, run: str, start: float, cores: float, *, available: float | None = None, seconds: int = SECONDS
) -> None:
    """Write the cores that a run used, and those that it might have used."""
    times, labels = _times(start, seconds), {"run_id": run}
    world.write(world.gauge("bench_process_cpu_seconds_total", times, [cores] * seconds, labels, "process"))
    if available is not None:
        world.write(world.gauge("bench_process_available_cores", times, [available] * seconds, labels, "process"))


def gpu_processes(
    world: World, start: float, gpu: str, *, processes: int, memory: float, share: float | None, seconds: int = SECONDS
) -> None:
    """Write the use of a GPU by processes outside runs."""
    times, labels = _times(start, seconds), {"UUID": gpu}
    for name, value in (("processes", processes), ("memory_bytes", memory), ("sm_utilization_ratio", share)):
        if value is not None:
            world.write(world.gauge(f"bench_gpu_other_{name}", times, [value] * seconds, labels, "nvml"))


def gpu_run(world: World, run: str, start: float, gpu: str, share: float | None, *, seconds: int = SECONDS) -> None:
    """Write the use of a GPU by a run."""
    times, labels = _times(start, seconds), {"UUID": gpu, "run_id": run}
    world.write(world.gauge("bench_gpu_run_processes", times, [1.0] * seconds, labels, "nvml"))
    if share is not None:
        world.write(world.gauge("bench_gpu_run_sm_utilization_ratio", times, [share] * seconds, labels, "nvml"))
