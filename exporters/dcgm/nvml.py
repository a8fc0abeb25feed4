"""Source of DCGM's fields from NVML: its counters, and GPM on Hopper and later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypergauge.exporters.dcgm.entities import Entity, Value
from hypergauge.gpu.sampling.sample import DeviceSample, GpuSample, Reader

__all__ = ["NvmlSource"]

_MIB = 2.0**-20
# By field: metric of the sample, and factor from its SI unit to DCGM's unit.
_GPU = {
    100: ("sm_clock", 1e-6),
    101: ("memory_clock", 1e-6),
    102: ("video_clock", 1e-6),
    140: ("memory_temperature", 1.0),
    150: ("temperature", 1.0),
    155: ("power", 1.0),
    156: ("energy", 1e3),
    164: ("power_limit", 1.0),
    190: ("performance_state", 1.0),
    191: ("fan_speed", 100.0),
    202: ("pcie_replays", 1.0),
    310: ("ecc_corrected", 1.0),
    311: ("ecc_uncorrected", 1.0),
    393: ("remapped_uncorrected", 1.0),
    394: ("remapped_corrected", 1.0),
    395: ("remap_failure", 1.0),
}
_DEVICE = {
    203: ("utilization", 100.0),
    204: ("memory_utilization", 100.0),
    206: ("encoder_utilization", 100.0),
    207: ("decoder_utilization", 100.0),
    250: ("memory_total", _MIB),
    251: ("memory_free", _MIB),
    252: ("memory_used", _MIB),
    253: ("memory_reserved", _MIB),
    1001: ("graphics_active", 1.0),
    1002: ("sm_active", 1.0),
    1003: ("sm_occupancy", 1.0),
    1004: ("tensor_active", 1.0),
    1005: ("memory_active", 1.0),
    1006: ("fp64_active", 1.0),
    1007: ("fp32_active", 1.0),
    1008: ("fp16_active", 1.0),
    1009: ("pcie_transmit", 1.0),
    1010: ("pcie_receive", 1.0),
    1011: ("nvlink_transmit", 1.0),
    1012: ("nvlink_receive", 1.0),
}


class NvmlSource:
    """GPUs and MIG instances of `reader`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def problem(self) -> str | None:
        """Return the reason why no GPU has profiling metrics, ``None`` where one has."""
        if problem := self._reader.problem():
            return problem
        gpus = self._reader.read().gpus
        if any(gpu.activity for gpu in gpus):
            return None
        if not gpus:
            return "there is no GPU"
        first = gpus[0].gpu
        return f"GPU {first.index} is {'an' if first.name.startswith('NVIDIA') else 'a'} {first.name}"

    def entities(self) -> list[Entity]:
        """Read all GPUs once."""
        sample = self._reader.read()
        return [entity for gpu in sample.gpus for entity in _entities(gpu, sample.driver)]

    def close(self) -> None:
        """Close NVML."""
        self._reader.close()


def _entities(sample: GpuSample, driver: str) -> Iterator[Entity]:
    gpu = sample.gpu
    values: dict[int, Value] = {1: driver, 50: gpu.name, 52: gpu.index, 54: gpu.uuid, 55: sample.minor}
    values |= {57: sample.pci_bus_id, **_values(_GPU, sample.metrics)}
    if sample.last_xid is not None:
        values[230] = sample.last_xid
    for device in sample.devices or [DeviceSample()]:  # without instances in MIG mode, only the GPU
        instance = device.instance
        yield Entity(
            gpu.index,
            gpu.uuid,
            sample.pci_bus_id,
            gpu.name,
            values | _values(_DEVICE, device.metrics),
            instance.gpu_instance_id if instance else None,
            instance.profile if instance else "",
            simulated=gpu.simulated,
        )


def _values(table: Mapping[int, tuple[str, float]], metrics: Mapping[str, float]) -> dict[int, Value]:
    return {number: metrics[name] * factor for number, (name, factor) in table.items() if name in metrics}
