"""Metrics that NVML offers by field id only: memory temperature and transfer counters."""

from __future__ import annotations

from typing import Any

from hypergauge.gpu.queries import Queries, known, typed

__all__ = ["Fields"]

_MEMORY_TEMPERATURE = 82
_ALL_LINKS = 2**32 - 1
# Name, field id, and bytes per count.
_COUNTERS: tuple[tuple[str, int | tuple[int, int], int], ...] = (
    ("pcie_transmit", 197, 1),
    ("pcie_receive", 198, 1),
    ("nvlink_transmit", (138, _ALL_LINKS), 1024),
    ("nvlink_receive", (139, _ALL_LINKS), 1024),
)
# Codes of unsupported fields: an invalid argument is a field id that the driver does not know.
_UNSUPPORTED = {2, 3, 4, 13}


class Fields:
    """Fields of one GPU, read in one call.

    Parameters
    ----------
    gpu
        Queries of the GPU.
    traffic
        Whether to read the transfer counters. They count for the whole GPU, never for a MIG instance.
    """

    def __init__(self, gpu: Queries, *, traffic: bool) -> None:
        self._gpu = gpu
        counters = _COUNTERS if traffic else ()
        self._wanted = [("memory_temperature", _MEMORY_TEMPERATURE, 1), *counters]
        self._last: dict[str, float] = {}
        self._read_at = 0.0

    def read(self, now: float) -> tuple[float | None, dict[str, float]]:
        """Return the memory's temperature, and bytes per second since the last call.

        `now` is in seconds by any clock. A counter that fell, or is new, has no rate this time.
        """
        values = self._values()
        # GPUs without a memory sensor report 0.
        temperature = values.pop("memory_temperature", 0.0) or None
        seconds, self._read_at = now - self._read_at, now
        last, self._last = self._last, values
        rates = {
            name: (value - last[name]) / seconds
            for name, value in values.items()
            if name in last and value >= last[name] and seconds > 0
        }
        return temperature, rates

    def _values(self) -> dict[str, float]:
        if not self._wanted:
            return {}
        answers = self._gpu.query("nvmlDeviceGetFieldValues", tuple(field for _, field, _ in self._wanted))
        if answers is None:
            return {}
        values = {}
        wanted = list(zip(self._wanted, answers, strict=True))
        for (name, _, factor), answer in wanted:
            value: Any = typed(answer.value, answer.valueType) if answer.nvmlReturn == 0 else None
            if known(value):
                values[name] = float(value) * factor
        self._wanted = [one for one, answer in wanted if answer.nvmlReturn not in _UNSUPPORTED]
        return values
