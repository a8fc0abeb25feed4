"""World of simulated GPUs: devices, events, time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypergauge.core.system.uptime import uptime
from hypergauge.simulation.hardware import physics
from hypergauge.simulation.hardware.ledger import GpuState, Ledger, WorldState
from hypergauge.simulation.hardware.load import Watch
from hypergauge.simulation.hardware.mig import create_compute_instance, create_instance
from hypergauge.simulation.hardware.specification import SpecifiedGpu, parse

__all__ = ["World", "WorldReplaced"]

# Age limit of values. The kernel counts CPU time in ticks of 10 ms, so much shorter steps would be inaccurate.
_STEP_SECONDS = 0.05
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class WorldReplaced(Exception):
    """Another specification has replaced the world in its folder."""


class World:
    """Simulated GPUs, shared by processes that open the same specification in the same folder."""

    def __init__(self, gpus: list[SpecifiedGpu], ledger: Ledger) -> None:
        self.gpus = gpus
        self._models = [gpu.model for gpu in gpus]
        self._ledger = ledger
        self._watch = Watch()
        self._specification = json.dumps(
            [[gpu.uuid, gpu.model.name, gpu.mig, [[one.name, start] for one, start in gpu.instances]] for gpu in gpus]
        )
        with ledger.locked():
            state = ledger.read()
            if state is None or state["specification"] != self._specification or state["boot"] != _boot():
                ledger.write(self._begin())

    @classmethod
    def open(cls, specification: str, folder: Path | None = None) -> World:
        """Open the world of `specification` in `folder`, or without one in this process alone.

        It replaces a world of another specification in the folder.

        Raises
        ------
        BadRequest
            The specification is invalid.
        """
        world = str(folder.resolve()) if folder else f"process {os.getpid()}"
        return cls(parse(specification, world), Ledger(folder))

    def state(self) -> WorldState:
        """Return the state as last written, read-only.

        Raises
        ------
        WorldReplaced
            Another specification has replaced this world.
        """
        return self._own(self._ledger.read())

    def now(self) -> WorldState:
        """Return the state advanced to now, read-only; raise as `state`."""
        state = self.state()
        if uptime() - state["at"] < _STEP_SECONDS:
            return state
        with self.change() as state:
            return state

    @contextmanager
    def change(self) -> Iterator[WorldState]:
        """Advance the state to now and let the block change it. An exception in the block discards the change."""
        with self._ledger.locked():
            state = self._own(self._ledger.copy())
            clients = self._watch.scan(key for key, one in state["processes"].items() if one["ended"] is None)
            now = uptime()
            if now - state["at"] >= _STEP_SECONDS:
                physics.advance(state, self._models, clients, now)
                state["time"] = time.time()
            else:
                physics.enlist(state, clients, now)
            yield state
            self._ledger.write(state)

    def lose(self, index: int) -> None:
        """Let a GPU fall off the bus: calls raise that it is lost, and nothing runs on it."""
        with self.change() as state:
            state["gpus"][index]["lost"] = True

    def restore(self, index: int) -> None:
        """Restore a lost GPU; its counters continue."""
        with self.change() as state:
            state["gpus"][index]["lost"] = False

    def throttle(self, index: int, reasons: int) -> None:
        """Throttle the clocks of a GPU for `reasons`, NVML's bits; 0 ends that."""
        with self.change() as state:
            state["gpus"][index]["throttle"] = reasons

    def xid(self, index: int, number: int) -> None:
        """Raise an XID error on a GPU."""
        with self.change() as state:
            serial = next_serial(state)
            state["xids"] = [*state["xids"][-99:], (serial, index, number)]

    def reload_driver(self) -> None:
        """Restart the driver: sessions must open it again, and its counters begin at 0."""
        with self.change() as state:
            state["driver"] += 1
            for gpu in state["gpus"]:
                gpu["energy"] = 0.0

    def _own(self, state: WorldState | None) -> WorldState:
        if state is None or state["specification"] != self._specification:
            raise WorldReplaced
        return state

    def _begin(self) -> WorldState:
        state: WorldState = {
            "specification": self._specification,
            "boot": _boot(),
            "driver": 1,
            "serial": 0,
            "at": uptime(),
            "time": time.time(),
            "gpus": [],
            "devices": {},
            "processes": {},
            "xids": [],
        }
        for gpu in self.gpus:
            gpu_state: GpuState = {
                "uuid": gpu.uuid,
                "mig": gpu.mig,
                "lost": False,
                "throttle": 0,
                "power": float(gpu.model.idle_watts),
                "energy": 0.0,
                "temperature": physics.settled_temperature(gpu.model.idle_watts, gpu.model),
                "instances": [],
            }
            state["gpus"].append(gpu_state)
            state["devices"][gpu.uuid] = {"busy": 0.0, "linked": 0.0, "activity": 0.0}
            for profile, start in gpu.instances:
                instance = create_instance(gpu.model, gpu_state, profile, start, next_serial(state))
                create_compute_instance(state, gpu_state, instance, next_serial(state))
        return state


def next_serial(state: WorldState) -> int:
    """Return a number that is unused in this world."""
    state["serial"] += 1
    return state["serial"]


def _boot() -> str:
    return _BOOT.read_text().strip() if _BOOT.exists() else ""
