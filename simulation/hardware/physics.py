"""Physics of the simulated GPUs: work, power, energy, heat."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from hypergauge.gpu.models import Model
from hypergauge.simulation.hardware.ledger import DeviceState, GpuState, ProcessState, WorldState
from hypergauge.simulation.hardware.load import Client

__all__ = ["advance", "enlist", "settled_temperature"]

# Full load draws nine tenths of the range above idle, so that power alone never throttles the clocks.
_WORKING = 0.9
_THROTTLED = 0.7
_AMBIENT_CELSIUS = 28.0
_CELSIUS_AT_LIMIT = 50.0  # above ambient
_HEATING_SECONDS = 40.0
# Ended processes stay this long for sessions that query the work since their last query.
_ENDED_SECONDS = 60.0
# Tick of the kernel's clock, the resolution of a process's start time.
_TICK = 0.01


def enlist(state: WorldState, clients: Mapping[str, Client], now: float) -> None:
    """Update the list of processes on devices to `now`."""
    usable = {uuid for gpu in state["gpus"] for uuid in _devices_of(gpu)}
    for key, client in clients.items():
        process = state["processes"].get(key)
        if process is None and not client.stat.zombie and not usable.isdisjoint(client.devices or ()):
            process = state["processes"][key] = _new(client, state["at"])
        if process is None or process["ended"] is not None:
            continue
        _update(process, client, usable)
        if client.stat.zombie:
            process["ended"] = now
    for key, process in list(state["processes"].items()):
        if key not in clients and process["ended"] is None:
            process["ended"], process["resident"] = now, 0
        elif process["ended"] is not None and now - process["ended"] > _ENDED_SECONDS:
            del state["processes"][key]


def advance(state: WorldState, models: Sequence[Model], clients: Mapping[str, Client], now: float) -> None:
    """Advance the world to `now`. The work of a process is spread evenly over the interval.

    Power is constant over the interval since the last advance, so energy is its exact integral.
    """
    seconds = now - state["at"]
    running = {key for key, process in state["processes"].items() if process["ended"] is None}
    enlist(state, clients, now)
    done = {key: process for key, process in state["processes"].items() if key in running or process["ended"] is None}
    loads = {key: _load(done[key], clients[key], seconds) for key in done if key in clients}
    totals: dict[str, float] = defaultdict(float)
    for key, load in loads.items():
        for uuid in done[key]["busy"]:
            totals[uuid] += load
    lost = {uuid for gpu in state["gpus"] if gpu["lost"] for uuid in _devices_of(gpu)}
    for uuid, device in state["devices"].items():
        device["activity"] = 0.0 if uuid in lost else min(1.0, totals[uuid])
        device["busy"] += device["activity"] * seconds
    for key, process in state["processes"].items():
        _credit(state, process, loads.get(key, 0.0), totals, lost, seconds)
    for gpu, model in zip(state["gpus"], models, strict=True):
        if not gpu["lost"]:
            _work(state, gpu, model, seconds)
    state["at"] = now


def settled_temperature(watts: float, model: Model) -> float:
    """Return the temperature of a GPU in equilibrium, Celsius."""
    return _AMBIENT_CELSIUS + _CELSIUS_AT_LIMIT * watts / model.limit_watts


def _devices_of(gpu: GpuState) -> list[str]:
    """Return the UUIDs of the compute devices: the GPU, or in MIG mode its instances."""
    if not gpu["mig"]:
        return [gpu["uuid"]]
    return [instance["uuid"] for instance in gpu["instances"] if instance["uuid"] is not None]


def _new(client: Client, since: float) -> ProcessState:
    return {
        "cpu": 0.0 if client.stat.created >= since - _TICK else client.stat.own_seconds,
        "resident": 0,
        "mps": client.mps,
        "cap": client.cap,
        "busy": {},
        "activity": {},
        "ended": None,
    }


def _update(process: ProcessState, client: Client, usable: Collection[str]) -> None:
    process["resident"] = 0 if client.stat.zombie else client.stat.resident_bytes
    if client.devices is None:
        return
    process["mps"], process["cap"] = client.mps, client.cap
    named = [uuid for uuid in dict.fromkeys(client.devices) if uuid in usable]
    if named != list(process["busy"]):
        process["busy"] = {uuid: process["busy"].get(uuid, 0.0) for uuid in named}
        process["activity"] = {uuid: process["activity"].get(uuid, 0.0) for uuid in named}


def _load(process: ProcessState, client: Client, seconds: float) -> float:
    """Return the load of a process on a device of its own, from its CPU time."""
    used = max(0.0, client.stat.own_seconds - process["cpu"])
    process["cpu"] = client.stat.own_seconds
    return min(used / seconds, process["cap"])


def _credit(
    state: WorldState,
    process: ProcessState,
    load: float,
    totals: Mapping[str, float],
    lost: Collection[str],
    seconds: float,
) -> None:
    linked = len(process["busy"]) > 1
    for uuid in process["busy"]:
        activity = 0.0 if uuid in lost else load / max(1.0, totals.get(uuid, 0.0))
        process["activity"][uuid] = activity
        process["busy"][uuid] += activity * seconds
        if linked and uuid in state["devices"]:  # an instance may be removed before its processes are dropped
            state["devices"][uuid]["linked"] += activity * seconds


def _work(state: WorldState, gpu: GpuState, model: Model, seconds: float) -> None:
    device = state["devices"][gpu["uuid"]]
    if gpu["mig"]:
        device["activity"] = _of_instances(state["devices"], gpu, model)
        device["busy"] += device["activity"] * seconds
    working = _WORKING * (_THROTTLED if gpu["throttle"] else 1.0)
    gpu["power"] = model.idle_watts + (model.limit_watts - model.idle_watts) * working * device["activity"]
    gpu["energy"] += gpu["power"] * seconds
    target = settled_temperature(gpu["power"], model)
    gpu["temperature"] = target + (gpu["temperature"] - target) * math.exp(-seconds / _HEATING_SECONDS)


def _of_instances(devices: Mapping[str, DeviceState], gpu: GpuState, model: Model) -> float:
    shares = 0.0
    for instance in gpu["instances"]:
        profile = model.profile(instance["profile"])
        if instance["uuid"] is not None and profile is not None:
            shares += devices[instance["uuid"]]["activity"] * profile.compute
    return shares / model.compute_slices
