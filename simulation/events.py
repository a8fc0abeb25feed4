"""NVML functions about XID events."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pynvml

from hypergauge.simulation.ledger import WorldState
from hypergauge.simulation.session import Board, Session

__all__ = ["Events"]

_POLL_SECONDS = 0.01
_NONE = 0xFFFFFFFF  # no instance


@dataclass(eq=False, slots=True)
class _EventSet:
    """The GPUs of which XID errors are waited for, each with the number of the last one that was told."""

    told: dict[int, int] = field(default_factory=dict)


class Events(Session):
    """Sets of events; of these there are XID errors only."""

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
        self._set(eventSet).told.setdefault(index, state["serial"])

    def nvmlEventSetWait(self, eventSet: Any, timeoutms: int) -> Any:
        until = time.monotonic() + timeoutms / 1000
        while True:
            state = self._state()
            found = _next(state, self._set(eventSet))
            if found is not None:
                index, number = found
                event = pynvml.c_nvmlEventData_t()
                event.device = self._handle(Board(index), pynvml.c_nvmlDevice_t)
                event.eventType, event.eventData = pynvml.nvmlEventTypeXidCriticalError, number
                event.gpuInstanceId = event.computeInstanceId = _NONE
                return event
            if time.monotonic() >= until:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
            time.sleep(_POLL_SECONDS)

    def nvmlEventSetWait_v2(self, eventSet: Any, timeoutms: int) -> Any:
        return self.nvmlEventSetWait(eventSet, timeoutms)

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
        if serial > events.told.get(index, serial):
            events.told[index] = serial
            return index, number
    return None
