"""Buffers of recent samples in the driver: power every 20 ms, utilization every 200 ms."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from statistics import fmean

from hypergauge.gpu.queries import NO_SAMPLES, Queries, known, typed

__all__ = ["Buffers"]

# Its code for a buffer that the driver does not know.
_INVALID_ARGUMENT = 2


@dataclass(frozen=True, slots=True)
class _Kind:
    """Buffer of a metric: NVML's number of it, the value of several samples, counts per SI unit, and the largest count."""

    number: int
    combine: Callable[[Collection[float]], float]
    scale: int
    most: float = math.inf


_KINDS = {
    "power_peak": _Kind(0, max, 1000),
    "utilization": _Kind(1, fmean, 100, 100),
    "memory_utilization": _Kind(2, fmean, 100, 100),
}


class Buffers:
    """Metrics of one GPU over the time since the last read, from the driver's buffers.

    An H200 with driver 580 keeps 2.4 s of power and 14 s of utilization. After a longer time a metric covers that much of
    its end.

    Parameters
    ----------
    gpu
        Queries of the GPU.
    metrics
        Names: ``power_peak``, ``utilization``, ``memory_utilization``.
    """

    def __init__(self, gpu: Queries, *metrics: str) -> None:
        self._gpu = gpu
        self._metrics = metrics
        self._seen_until: dict[str, int] = {}
        self._last: dict[str, float] = {}

    def read(self, time: float) -> dict[str, float]:
        """Return the metrics since the last read; one without a new sample keeps its value.

        The first read has none, as the samples before it are of another time. A metric without a buffer is left out.

        Parameters
        ----------
        time
            Unix time in seconds.
        """
        now = int(time * 1e6)
        for name in self._metrics:
            # Not after now: the clock may have been set back.
            since = min(self._seen_until.get(name, now), now)
            samples = self._samples(name, since, now)
            self._seen_until[name] = max(samples, default=since)
            if samples:
                self._last[name] = _KINDS[name].combine(samples.values()) / _KINDS[name].scale
        return dict(self._last)

    def _samples(self, name: str, since: int, now: int) -> dict[int, float]:
        """Return the values of new samples by their time in Unix microseconds, NVML's unit."""
        nvml, kind = self._gpu.nvml, _KINDS[name]
        try:
            value_type, samples = nvml.nvmlDeviceGetSamples(self._gpu.handle, kind.number, since)
        except nvml.NVMLError as error:
            if error.value not in NO_SAMPLES and (error.value == _INVALID_ARGUMENT or self._gpu.lacks(error)):
                self._metrics = tuple(other for other in self._metrics if other != name)
                self._last.pop(name, None)
            return {}
        found = {}
        for sample in samples:
            value = typed(sample.sampleValue, value_type)
            # Some drivers pad the list with invalid samples.
            if since < sample.timeStamp <= now and known(value) and value <= kind.most:
                found[sample.timeStamp] = value
        return found
