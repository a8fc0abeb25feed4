"""GPM: hardware counters of a GPU or MIG instance, on Hopper and later."""

from __future__ import annotations

import contextlib
from typing import Any

from hypergauge.gpu.queries import Queries, known

__all__ = ["Activity", "has_gpm"]

# By NVML's id, percentages and MiB/s.
_RATIOS = {
    1: "graphics_active",
    2: "sm_active",
    3: "sm_occupancy",
    5: "tensor_active",
    10: "memory_active",
    11: "fp64_active",
    12: "fp32_active",
    13: "fp16_active",
}
_RATES = {20: "pcie_transmit", 21: "pcie_receive", 60: "nvlink_receive", 61: "nvlink_transmit"}
_IDS = (*_RATIOS, *_RATES)
# Samples closer together carry no information; across longer gaps the values are old, and the counters wrap.
_SHORTEST, _LONGEST = 0.1, 300.0


def has_gpm(gpu: Queries) -> bool:
    """Return whether the GPU supports GPM."""
    support = gpu.query("nvmlGpmQueryDeviceSupport")
    return support is not None and bool(support.isSupportedDevice)


class Activity:
    """Activity of one GPU or MIG instance, from sample to sample.

    Parameters
    ----------
    gpu
        Queries of the GPU.
    gpu_instance_id
        The MIG instance; without it the whole GPU.

    Attributes
    ----------
    denied
        Whether this user may not read GPM.
    """

    def __init__(self, gpu: Queries, gpu_instance_id: int | None = None) -> None:
        self._gpu, self._instance = gpu, gpu_instance_id
        self.denied = False
        self._sample: Any = None
        self._spare: Any = None
        self._taken_at = 0.0
        self._metrics: dict[str, float] = {}
        self._request: Any = None

    def read(self, now: float) -> dict[str, float]:
        """Return the metrics since the last call; none at the first call.

        `now` is in seconds by any clock. Within 100 ms of the last call this returns the same metrics.
        """
        age = now - self._taken_at
        if self._sample is not None and age < _SHORTEST:
            return self._metrics
        self._metrics = {}
        if not self._take():
            self.close()
            return {}
        earlier, self._sample, self._spare, self._taken_at = self._sample, self._spare, self._sample, now
        if earlier is not None and age <= _LONGEST:
            self._metrics = self._compare(earlier, self._sample)
        return self._metrics

    def close(self) -> None:
        """Free the samples."""
        for sample in (self._sample, self._spare):
            if sample is not None:
                with contextlib.suppress(self._gpu.nvml.NVMLError):  # the driver has freed them
                    self._gpu.nvml.nvmlGpmSampleFree(sample)
        self._sample = self._spare = None

    def _take(self) -> bool:
        """Read a sample into the spare one and return whether that worked."""
        nvml = self._gpu.nvml
        try:
            if self._spare is None:
                self._spare = nvml.nvmlGpmSampleAlloc()
            if self._instance is None:
                nvml.nvmlGpmSampleGet(self._gpu.handle, self._spare)
            else:
                nvml.nvmlGpmMigSampleGet(self._gpu.handle, self._instance, self._spare)
        except nvml.NVMLError as error:
            self.denied = self._gpu.lacks(error)
            return False
        return True

    def _compare(self, earlier: Any, later: Any) -> dict[str, float]:
        nvml = self._gpu.nvml
        if self._request is None:
            self._request = nvml.c_nvmlGpmMetricsGet_t()
            self._request.version = nvml.NVML_GPM_METRICS_GET_VERSION
            self._request.numMetrics = len(_IDS)
            for position, metric in enumerate(_IDS):
                self._request.metrics[position].metricId = metric
        self._request.sample1, self._request.sample2 = earlier, later
        try:
            answer = nvml.nvmlGpmMetricsGet(self._request)
        except nvml.NVMLError as error:
            self._gpu.lacks(error)
            return {}
        metrics = {}
        for position, metric in enumerate(_IDS):
            entry = answer.metrics[position]
            if entry.nvmlReturn != 0 or not known(entry.value) or entry.value < 0:
                continue
            if metric in _RATIOS:
                metrics[_RATIOS[metric]] = min(entry.value / 100, 1.0)
            else:
                metrics[_RATES[metric]] = entry.value * 2**20
        return metrics
