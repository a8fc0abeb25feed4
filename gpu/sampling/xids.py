"""XID errors of the driver."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

from hypergauge.gpu.queries import Queries

__all__ = ["Xids"]

_XID = 8
_TIMEOUT = 10
# Limit per read, so that a storm of errors does not delay it.
_MOST = 1000


class Xids:
    """Counts of one GPU's XID errors, also across its loss and return.

    Attributes
    ----------
    counts
        Counts by number.
    last
        The last one, 0 for none, ``None`` where the driver does not report them.
    """

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.last: int | None = None
        self._gpu: Queries | None = None
        self._events: Any = None

    def open(self, gpu: Queries) -> None:
        """Register for events."""
        self.close()
        supported = gpu.query("nvmlDeviceGetSupportedEventTypes")
        if not supported or not supported & _XID:
            return
        # An event set per GPU: an event names its GPU by a handle, which is invalid once the GPU is lost.
        try:
            self._events = gpu.nvml.nvmlEventSetCreate()
            self._gpu = gpu
            gpu.nvml.nvmlDeviceRegisterEvents(gpu.handle, _XID, self._events)
        except gpu.nvml.NVMLError as error:
            self.close()
            gpu.lacks(error)
            return
        self.last = self.last or 0

    def read(self) -> None:
        """Count the events since the last call, without waiting."""
        if self._gpu is None:
            return
        nvml = self._gpu.nvml
        for _ in range(_MOST):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError as error:
                if error.value != _TIMEOUT and self._gpu.lacks(error):
                    self.close()
                return
            if event.eventType == _XID:
                self.last = int(event.eventData)
                self.counts[self.last] += 1

    def close(self) -> None:
        """Free the events."""
        if self._gpu is not None:
            with contextlib.suppress(self._gpu.nvml.NVMLError):  # the driver has freed it
                self._gpu.nvml.nvmlEventSetFree(self._events)
        self._gpu = self._events = None
