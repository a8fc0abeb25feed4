"""NVML functions about GPM: samples, and the activity between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pynvml

from hypergauge.gpu.models import Model
from hypergauge.simulation.hardware.ledger import WorldState
from hypergauge.simulation.nvml.metrics import LINK_BYTES, MEMORY_SHARE, RECEIVED_BYTES, SENT_BYTES
from hypergauge.simulation.nvml.session import Session

__all__ = ["Gpm"]

_WITH_GPM = ("hopper",)
_MIB = 2**20

# Percentages while the SMs are busy.
_SHARES = {
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: 100.0,
    pynvml.NVML_GPM_METRIC_SM_UTIL: 100.0,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: 50.0,
    pynvml.NVML_GPM_METRIC_INTEGER_UTIL: 10.0,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 40.0,
    pynvml.NVML_GPM_METRIC_DFMA_TENSOR_UTIL: 0.0,
    pynvml.NVML_GPM_METRIC_HMMA_TENSOR_UTIL: 40.0,
    pynvml.NVML_GPM_METRIC_IMMA_TENSOR_UTIL: 0.0,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 100.0 * MEMORY_SHARE,
    pynvml.NVML_GPM_METRIC_FP64_UTIL: 0.0,
    pynvml.NVML_GPM_METRIC_FP32_UTIL: 20.0,
    pynvml.NVML_GPM_METRIC_FP16_UTIL: 10.0,
}
# MiB/s over bus and links. They exist only for the whole GPU, not for an instance.
_TRAFFIC = {
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: SENT_BYTES / _MIB,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: RECEIVED_BYTES / _MIB,
}
_LINKED = {
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: LINK_BYTES / _MIB,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC: LINK_BYTES / _MIB,
}


@dataclass(eq=False, slots=True)
class _Sample:
    """Sample of a device: its UUID and kind, the time, and its busy seconds."""

    uuid: str = ""
    instance: bool = False
    at: float = 0.0
    busy: float = 0.0
    linked: float = 0.0


class Gpm(Session):
    """Functions about GPM samples."""

    def nvmlGpmQueryDeviceSupport(self, device: Any) -> Any:
        _, _, model, _ = self._device(self._state(), device)
        support = pynvml.c_nvmlGpmSupport_t()
        support.version = pynvml.NVML_GPM_SUPPORT_VERSION
        support.isSupportedDevice = int(self._has_gpm(model))
        return support

    def nvmlGpmSampleAlloc(self) -> Any:
        self._state()
        return self._handle(_Sample(), pynvml.c_nvmlGpmSample_t)

    def nvmlGpmSampleFree(self, gpmSample: Any) -> None:
        self._forget(self._sample(gpmSample))

    def nvmlGpmSampleGet(self, device: Any, gpmSample: Any) -> Any:
        state = self._now()
        _, gpu, model = self._parent(state, device)
        self._take(state, gpu["uuid"], False, model, gpmSample)
        return gpmSample

    def nvmlGpmMigSampleGet(self, device: Any, gpuInstanceId: int, gpmSample: Any) -> Any:
        state = self._now()
        _, gpu, model = self._partitioned(state, device)
        uuid = next((one["uuid"] for one in gpu["instances"] if one["id"] == gpuInstanceId), None)
        if uuid is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        self._take(state, uuid, True, model, gpmSample)
        return gpmSample

    def nvmlGpmMetricsGet(self, metricsGet: Any) -> Any:
        self._state()
        if metricsGet.version != pynvml.NVML_GPM_METRICS_GET_VERSION:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        first, second = self._sample(metricsGet.sample1), self._sample(metricsGet.sample2)
        if not first.uuid or first.uuid != second.uuid:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        for metric in metricsGet.metrics[: metricsGet.numMetrics]:
            value = _value(metric.metricId, first, second)
            if value is None:
                metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
            elif second.at <= first.at:
                metric.nvmlReturn = pynvml.NVML_ERROR_NO_DATA
            else:
                metric.nvmlReturn, metric.value = pynvml.NVML_SUCCESS, value / (second.at - first.at)
        return metricsGet

    def _has_gpm(self, model: Model) -> bool:
        return model.architecture in _WITH_GPM or (self._dcgm and model.datacenter)

    def _take(self, state: WorldState, uuid: str, instance: bool, model: Model, handle: Any) -> None:
        sample = self._sample(handle)
        if not self._has_gpm(model):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        device = state["devices"][uuid]
        sample.uuid, sample.instance, sample.at = uuid, instance, state["at"]
        sample.busy, sample.linked = device["busy"], device["linked"]

    def _sample(self, handle: Any) -> _Sample:
        target = self._target(handle)
        if not isinstance(target, _Sample):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return target


def _value(number: int, first: _Sample, second: _Sample) -> float | None:
    """Return the difference of two samples in a metric's unit times seconds."""
    if number in _SHARES:
        return _SHARES[number] * (second.busy - first.busy)
    if second.instance:
        return None
    if number in _TRAFFIC:
        return _TRAFFIC[number] * (second.busy - first.busy)
    return _LINKED[number] * (second.linked - first.linked) if number in _LINKED else None
