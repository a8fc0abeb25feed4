"""NVML functions about the driver's buffers of recent samples."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from typing import Any

import pynvml

from hypergauge.simulation.hardware.ledger import GpuState, WorldState
from hypergauge.simulation.hardware.world import World
from hypergauge.simulation.nvml.metrics import MEMORY_SHARE
from hypergauge.simulation.nvml.session import Session

__all__ = ["Buffers"]

# Microseconds between two samples and number of samples, as on an H200 with driver 580.
_POWER = (20_000, 119)
_UTILIZATION = (200_000, 71)
# Per cent while the SMs are busy.
_SHARES = {
    pynvml.NVML_GPU_UTILIZATION_SAMPLES: 100.0,
    pynvml.NVML_MEMORY_UTILIZATION_SAMPLES: 100.0 * MEMORY_SHARE,
    pynvml.NVML_ENC_UTILIZATION_SAMPLES: 0.0,
    pynvml.NVML_DEC_UTILIZATION_SAMPLES: 0.0,
}
# Known, but empty on real GPUs.
_EMPTY = {pynvml.NVML_PROCESSOR_CLK_SAMPLES, pynvml.NVML_MEMORY_CLK_SAMPLES}
# The longest buffer, and states of the world in it: the world renews them every 50 ms at most.
_DEPTH_SECONDS = 15.0
_KEPT_STATES = 300
# The host's clock was set if it is off by more.
_TOLERANCE = 1_000_000


@dataclass(frozen=True, slots=True)
class _State:
    """Busy seconds and joules of a GPU so far; `at` is in seconds since the host booted."""

    at: float
    busy: float
    joules: float


class Buffers(Session):
    """Functions about the driver's buffers.

    A sample is the mean between states that this session has seen. Before the first one, the load was as then.
    """

    def __init__(self, world: World, dcgm: bool = False) -> None:
        super().__init__(world, dcgm)
        self._booted = 0  # Unix microseconds
        self._states: dict[int, deque[_State]] = {}  # by GPU

    def nvmlDeviceGetSamples(self, device: Any, sampling_type: int, timeStamp: int) -> tuple[int, list[Any]]:
        state = self._now()
        index, gpu, _, instance = self._device(state, device)
        of_power = sampling_type == pynvml.NVML_TOTAL_POWER_SAMPLES
        if instance is not None or (gpu["mig"] and not of_power):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if sampling_type in _EMPTY:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        if not of_power and sampling_type not in _SHARES:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        states = self._remember(index, state, gpu)
        every, count = _POWER if of_power else _UTILIZATION
        newest = (self._booted + round(1e6 * state["at"])) // every
        samples = []
        for number in range(max(newest - count, timeStamp // every) + 1, newest + 1):
            watts, busy = _means(states, ((number - 1) * every - self._booted) / 1e6, every / 1e6)
            sample = pynvml.c_nvmlSample_t(timeStamp=number * every)
            sample.sampleValue.uiVal = round(1000 * watts if of_power else _SHARES[sampling_type] * busy)
            samples.append(sample)
        if not samples:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, samples

    def _remember(self, index: int, state: WorldState, gpu: GpuState) -> deque[_State]:
        booted = round(1e6 * (state["time"] - state["at"]))
        if abs(booted - self._booted) > _TOLERANCE:
            self._booted = booted
            self._states.clear()
        device = state["devices"][gpu["uuid"]]
        now = _State(state["at"], device["busy"], gpu["energy"])
        states = self._states.setdefault(index, deque(maxlen=_KEPT_STATES))
        if states and now.joules < states[-1].joules:  # the driver restarted
            states.clear()
        if not states:
            before = now.busy - device["activity"] * _DEPTH_SECONDS, now.joules - gpu["power"] * _DEPTH_SECONDS
            states.append(_State(now.at - _DEPTH_SECONDS, *before))
        if now.at > states[-1].at:
            states.append(now)
        return states


def _means(states: deque[_State], start: float, seconds: float) -> tuple[float, float]:
    """Return mean power and busy share in an interval."""
    earlier, later = (_at(states, at) for at in (start, start + seconds))
    return (later.joules - earlier.joules) / seconds, (later.busy - earlier.busy) / seconds


def _at(states: deque[_State], at: float) -> _State:
    """Return the state at a time, between two known ones."""
    position = min(max(1, bisect_left(states, at, key=lambda one: one.at)), len(states) - 1)
    earlier, later = states[position - 1], states[position]
    share = (at - earlier.at) / (later.at - earlier.at)
    return _State(
        at,
        earlier.busy + share * (later.busy - earlier.busy),
        earlier.joules + share * (later.joules - earlier.joules),
    )
