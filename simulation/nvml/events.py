"""NVML functions about XID events."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pynvml

from hypergauge.simulation.hardware.ledger import WorldState
from hypergauge.simulation.nvml.session import PhysicalGpu, Session

__all__ = ["Events"]

_POLL_SECONDS = 0.01
_NONE = 0xFFFFFFFF  # no instance


@dataclass(eq=False, slots=True)
class _EventSet:
    """Registered GPUs, each with the serial number of the last reported XID error."""

    reported: dict[int, int] = field(default_factory=dict)


class Events(Session):
    """Functions about event sets. The only events are XID errors."""

    def nvmlEventSetCreate(self) -> Any:
        self._state()
        return self._handle(_EventSet(), pynvml.c_nvmlEventSet_t)

    def nvmlDeviceGetSupportedEventTypes(self, handle: Any) -> int:
        self._parent(self._state(), handle)
        return int(pynvml.nvmlEventTypeXidCriticalError)

    def nvmlDeviceRegisterEvents(self, handle: Any, eventTypes: int, eventSet: Any) -> None:
        state = self._state()
        index, _, _ = self._parent(state, handle)
        if eventTypes & ~pynvml.nvmlEventTypeXidCriticalError:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self._set(eventSet).reported.setdefault(index, state["serial"])

    def nvmlEventSetWait_v2(self, eventSet: Any, timeoutms: int) -> Any:
        until = time.monotonic() + timeoutms / 1000
        while True:
            state = self._state()
            found = _next(state, self._set(eventSet))
            if found is not None:
                index, number = found
                event = pynvml.c_nvmlEventData_t()
                event.device = self._handle(PhysicalGpu(index), pynvml.c_nvmlDevice_t)
                event.eventType, event.eventData = pynvml.nvmlEventTypeXidCriticalError, number
                event.gpuInstanceId = event.computeInstanceId = _NONE
                return event
            if time.monotonic() >= until:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
            time.sleep(_POLL_SECONDS)

    def nvmlEventSetFree(self, eventSet: Any) -> None:
        self._state()
        self._forget(self._set(eventSet))

    def _set(self, handle: Any) -> _EventSet:
        target = self._target(handle)
        if not isinstance(target, _EventSet):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return target


def _next(state: WorldState, events: _EventSet) -> tuple[int, int] | None:
    for serial, index, number in state["xids"]:
        if serial > events.reported.get(index, serial):
            events.reported[index] = serial
            return index, number
    return None
