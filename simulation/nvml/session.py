"""Session of a process with the simulated driver: open handles."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pynvml

from hypergauge.gpu.models import Model
from hypergauge.simulation.hardware.ledger import GpuState, InstanceState, WorldState
from hypergauge.simulation.hardware.world import World, WorldReplaced

__all__ = ["ComputeInstance", "GpuInstance", "MigDevice", "PhysicalGpu", "Session", "pointed"]


@dataclass(frozen=True, slots=True)
class PhysicalGpu:
    """Target of a GPU's handle."""

    index: int


@dataclass(frozen=True, slots=True)
class MigDevice:
    """Target of a MIG device's handle: the compute instance of that UUID."""

    index: int
    uuid: str


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """Target of a GPU instance's handle."""

    index: int
    serial: int


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """Target of a compute instance's handle."""

    index: int
    uuid: str


class Session:
    """Session from initialization to shutdown, with its handles.

    Handles are pointers as in pynvml. Their addresses are numbers of this session and refer to no memory.
    """

    def __init__(self, world: World, dcgm: bool = False) -> None:
        self._world = world
        self._dcgm = dcgm
        self._opened = 0
        self._driver = 0
        self._numbers = itertools.count(0x1000, 0x10)
        self._addresses: dict[Hashable, int] = {}
        self._targets: dict[int, Any] = {}

    def nvmlInit(self) -> None:
        try:
            driver = self._world.state()["driver"]
        except WorldReplaced:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED) from None
        if not self._opened or driver != self._driver:
            self._addresses.clear()
            self._targets.clear()
            self._opened, self._driver = 0, driver
        self._opened += 1

    def nvmlShutdown(self) -> None:
        if not self._opened:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        self._opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._state()
        return "575.57.08"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        self._state()
        return 12090

    def _state(self) -> WorldState:
        """Return the state for queries of devices; its measurements may be old."""
        return self._checked(self._world.state)

    def _now(self) -> WorldState:
        """Return the state advanced to now."""
        return self._checked(self._world.now)

    @contextmanager
    def _change(self) -> Iterator[WorldState]:
        """Change the state; an exception in the block discards the change."""
        self._state()
        with self._world.change() as state:
            yield state

    def _checked(self, read: Callable[[], WorldState]) -> WorldState:
        if not self._opened:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        try:
            state = read()
        except WorldReplaced:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN) from None
        if state["driver"] != self._driver:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        return state

    def _handle(self, target: Hashable, kind: Any) -> Any:
        """Return a handle of `target`, a pointer of type `kind`."""
        if target not in self._addresses:
            number = next(self._numbers)
            self._addresses[target], self._targets[number] = number, target
        return ctypes.cast(ctypes.c_void_p(self._addresses[target]), kind)

    def _forget(self, target: Hashable) -> None:
        del self._targets[self._addresses.pop(target)]

    def _target(self, handle: Any) -> Any:
        return self._targets.get(ctypes.cast(handle, ctypes.c_void_p).value or 0)

    def _gpu_at(self, state: WorldState, index: int) -> tuple[GpuState, Model]:
        gpu = state["gpus"][index]
        if gpu["lost"]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return gpu, self._world.gpus[index].model

    def _parent(self, state: WorldState, device: Any) -> tuple[int, GpuState, Model]:
        """Return the GPU of a handle; raise for that of a MIG device."""
        target = self._target(device)
        if not isinstance(target, PhysicalGpu):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return target.index, *self._gpu_at(state, target.index)

    def _device(self, state: WorldState, device: Any) -> tuple[int, GpuState, Model, InstanceState | None]:
        """Return the GPU, and if any the instance, of a handle of a GPU or MIG device."""
        target = self._target(device)
        if isinstance(target, PhysicalGpu):
            return target.index, *self._gpu_at(state, target.index), None
        if not isinstance(target, MigDevice):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        gpu, model = self._gpu_at(state, target.index)
        for instance in gpu["instances"]:
            if instance["uuid"] == target.uuid:
                return target.index, gpu, model, instance
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def _partitioned(self, state: WorldState, device: Any) -> tuple[int, GpuState, Model]:
        """Return the GPU of a handle; raise unless it is in MIG mode."""
        index, gpu, model = self._parent(state, device)
        if not gpu["mig"]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return index, gpu, model


def pointed(reference: Any) -> Any:
    """Return the object that a ``byref()``, ``pointer()`` or array refers to; a pointer may be an array."""
    return getattr(reference, "_obj", reference)
