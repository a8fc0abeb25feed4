"""NVML functions about a GPU's metrics."""

from __future__ import annotations

from typing import Any

import pynvml

from hypergauge.gpu.models import Model
from hypergauge.simulation.hardware.ledger import DeviceState, GpuState, WorldState
from hypergauge.simulation.nvml.session import Session

__all__ = ["LINK_BYTES", "MEMORY_SHARE", "RECEIVED_BYTES", "SENT_BYTES", "Metrics"]

# Per second of busy SMs: time of memory accesses, bytes over the bus, and bytes over the links between a process's GPUs.
MEMORY_SHARE = 0.6
SENT_BYTES = 1e9
RECEIVED_BYTES = 3e9
LINK_BYTES = 20e9

_IDLE_MHZ = 210
_IDLE_MEMORY_MHZ = 405
_SAMPLING_MICROSECONDS = 50_000
_MEMORY_WARMER = 4.0
_LINKS = 12


class Metrics(Session):
    """Functions about a GPU's metrics, and the utilization of a GPU without MIG mode."""

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        state, gpu, _ = self._unpartitioned(handle)
        activity = state["devices"][gpu["uuid"]]["activity"]
        rates = pynvml.c_nvmlUtilization_t()
        rates.gpu, rates.memory = round(100 * activity), round(100 * activity * MEMORY_SHARE)
        return rates

    def nvmlDeviceGetEncoderUtilization(self, handle: Any) -> list[int]:
        self._unpartitioned(handle)
        return [0, _SAMPLING_MICROSECONDS]

    def nvmlDeviceGetDecoderUtilization(self, handle: Any) -> list[int]:
        self._unpartitioned(handle)
        return [0, _SAMPLING_MICROSECONDS]

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int:
        return round(1000 * self._whole(handle)[1]["power"])

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any) -> int:
        return int(1000 * self._whole(handle)[1]["energy"])

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> int:
        return round(1000 * self._whole(handle)[2].limit_watts)

    def nvmlDeviceGetClockInfo(self, handle: Any, type: int) -> int:  # noqa: A002
        state, gpu, model = self._whole(handle)
        if not 0 <= type < pynvml.NVML_CLOCK_COUNT:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        awake = _is_awake(state, gpu)
        if type == pynvml.NVML_CLOCK_MEM:
            return model.memory_mhz if awake or model.datacenter else _IDLE_MEMORY_MHZ
        mhz = model.sm_mhz if awake else _IDLE_MHZ
        if gpu["throttle"] and awake:
            mhz = mhz * 6 // 10
        return mhz * 9 // 10 if type == pynvml.NVML_CLOCK_VIDEO else mhz

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:
        gpu = self._whole(handle)[1]
        if sensor != pynvml.NVML_TEMPERATURE_GPU:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return round(gpu["temperature"])

    def nvmlDeviceGetFieldValues(self, handle: Any, fieldIds: Any) -> Any:
        state, gpu, model = self._whole(handle)
        values = (pynvml.c_nvmlFieldValue_t * len(fieldIds))()
        for value, field in zip(values, fieldIds, strict=True):
            number, scope = field if isinstance(field, tuple | list) else (field, 0)
            value.fieldId, value.scopeId = number, scope
            value.timestamp = int(1e6 * state["time"])
            found = _field(number, scope, gpu, state["devices"][gpu["uuid"]], model)
            if found is None:
                value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
            else:
                value.nvmlReturn = pynvml.NVML_SUCCESS
                value.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
                value.value.ullVal = found
        return values

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any) -> int:
        state, gpu, _ = self._whole(handle)
        idle = not _is_awake(state, gpu)
        return gpu["throttle"] | (int(pynvml.nvmlClocksEventReasonGpuIdle) if idle else 0)

    def nvmlDeviceGetSupportedClocksEventReasons(self, handle: Any) -> int:
        self._whole(handle)
        return int(pynvml.nvmlClocksEventReasonAll)

    def nvmlDeviceGetPerformanceState(self, handle: Any) -> int:
        state, gpu, model = self._whole(handle)
        awake = model.datacenter or _is_awake(state, gpu)
        return int(pynvml.NVML_PSTATE_0 if awake else pynvml.NVML_PSTATE_8)

    def nvmlDeviceGetFanSpeed(self, handle: Any) -> int:
        _, gpu, model = self._whole(handle)
        if model.datacenter:  # the server's fans cool such GPUs
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return max(0, min(100, round(gpu["temperature"])))

    def nvmlDeviceGetPcieReplayCounter(self, handle: Any) -> int:
        self._whole(handle)
        return 0

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, errorType: int, counterType: int) -> int:  # noqa: ARG002
        if not self._whole(handle)[2].datacenter:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return 0

    def nvmlDeviceGetRemappedRows(self, device: Any) -> tuple[int, int, int, int]:
        if not _has_hbm(self._whole(device)[2]):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return (0, 0, 0, 0)

    def _whole(self, handle: Any) -> tuple[WorldState, GpuState, Model]:
        """Return the current state and the GPU of a handle; raise for a MIG device."""
        state = self._now()
        _, gpu, model, instance = self._device(state, handle)
        if instance is not None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return state, gpu, model

    def _unpartitioned(self, handle: Any) -> tuple[WorldState, GpuState, Model]:
        """Return the same; raise for a GPU in MIG mode."""
        state, gpu, model = self._whole(handle)
        if gpu["mig"]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return state, gpu, model


def _field(number: int, scope: int, gpu: GpuState, device: DeviceState, model: Model) -> int | None:
    found: dict[int, float] = {
        pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION: 1000 * gpu["energy"],
        pynvml.NVML_FI_DEV_POWER_AVERAGE: 1000 * gpu["power"],
        pynvml.NVML_FI_DEV_POWER_INSTANT: 1000 * gpu["power"],
        pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER: 0,
        pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: device["busy"] * SENT_BYTES,
        pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: device["busy"] * RECEIVED_BYTES,
    }
    if _has_hbm(model):
        share = 1.0 if scope == 0xFFFFFFFF else 1 / _LINKS if 0 <= scope < _LINKS else 0.0
        kib = device["linked"] * LINK_BYTES * share / 1024
        found |= {
            pynvml.NVML_FI_DEV_MEMORY_TEMP: gpu["temperature"] + _MEMORY_WARMER,
            pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT: _LINKS,
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: kib,
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX: kib,
        }
    value = found.get(number)
    return None if value is None else int(value)


def _has_hbm(model: Model) -> bool:
    """Return whether a GPU has stacked memory, links and MIG."""
    return bool(model.profiles)


def _is_awake(state: WorldState, gpu: GpuState) -> bool:
    """Return whether a GPU has processes or was active just now."""
    if state["devices"][gpu["uuid"]]["activity"]:
        return True
    uuids = {gpu["uuid"], *(instance["uuid"] for instance in gpu["instances"])}
    return any(one["ended"] is None and not uuids.isdisjoint(one["busy"]) for one in state["processes"].values())
