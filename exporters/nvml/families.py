"""Metric families of the exporter ``nvml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

__all__ = ["BOARD", "DEVICE", "Families"]

_PREFIX = "bench_gpu_"

# By name without the prefix, in the order in which they are shown; those that end in ``_total`` are counters.
_HELP = {
    "info": "What the GPU is, and where figures of its activity come from.",
    "lost": "1 for a GPU that was there and does not answer.",
    "utilization_ratio": "Share of time in which a kernel ran.",
    "memory_utilization_ratio": "Share of time in which device memory was read or written.",
    "encoder_utilization_ratio": "Share of time in which the video encoder was busy.",
    "decoder_utilization_ratio": "Share of time in which the video decoder was busy.",
    "memory_used_bytes": "Device memory in use.",
    "memory_free_bytes": "Device memory that can be had.",
    "memory_reserved_bytes": "Device memory that driver and firmware keep.",
    "memory_total_bytes": "Device memory there is.",
    "graphics_active_ratio": "Share of time in which the compute or graphics engine was busy.",
    "sm_active_ratio": "Share of time in which multiprocessors had work, mean over all of them.",
    "sm_occupancy_ratio": "Warps on the multiprocessors, of those that they can hold.",
    "tensor_active_ratio": "Share of time in which tensor cores worked.",
    "memory_active_ratio": "Share of the device memory's bandwidth that was used.",
    "fp64_active_ratio": "Share of time in which the FP64 units worked.",
    "fp32_active_ratio": "Share of time in which the FP32 units worked.",
    "fp16_active_ratio": "Share of time in which the FP16 units worked, tensor cores apart.",
    "pcie_transmit_bytes_per_second": "Sent by the GPU over PCIe.",
    "pcie_receive_bytes_per_second": "Received by the GPU over PCIe.",
    "nvlink_transmit_bytes_per_second": "Sent by the GPU over NVLink.",
    "nvlink_receive_bytes_per_second": "Received by the GPU over NVLink.",
    "power_watts": "Power of the board.",
    "power_limit_watts": "Power that the board may draw.",
    "energy_joules_total": "Energy that the board has used since the driver was loaded.",
    "idle_energy_joules_total": "Energy that the board would have used with nobody on it, since it was first seen.",
    "other_energy_joules_total": "Energy of processes that are no run's, since the board was first seen.",
    "temperature_celsius": "Temperature of the GPU.",
    "memory_temperature_celsius": "Temperature of device memory.",
    "clock_hertz": "Clocks of multiprocessors, device memory, graphics and video engines.",
    "fan_speed_ratio": "Speed of the fan, of its highest.",
    "performance_state": "Performance state, 0 the fastest.",
    "throttled": "Whether the reason keeps the clocks down now.",
    "pcie_replays_total": "Transfers over PCIe that had to be repeated, since the driver was loaded.",
    "ecc_errors_total": "Errors of memory, since the driver was loaded.",
    "remapped_rows_total": "Rows of memory that were replaced.",
    "row_remap_failure": "1 where a row of memory could not be replaced.",
    "xid_errors_total": "Faults that the driver has reported, by their number.",
    "last_xid": "Number of the last fault, 0 where there was none.",
    "run_start_time_seconds": "When the run was released, in Unix seconds; its totals were 0 then.",
    "run_end_time_seconds": "When the run ended, in Unix seconds; its other lines are its last.",
    "run_processes": "The run's processes on the GPU.",
    "run_memory_bytes": "Device memory of the run's processes.",
    "run_sm_utilization_ratio": "Share of time in which the run's kernels ran.",
    "attributed_energy_joules_total": "The run's share of the energy that the board has used, by how it was shared out.",
}

# By figure of `hypergauge.gpu.sample.DeviceSample`: the family, and the labels that tell it from others in it.
DEVICE: Mapping[str, tuple[str, Mapping[str, str]]] = {
    **{
        name: (f"{name}_ratio", {})
        for name in (
            "utilization", "memory_utilization", "encoder_utilization", "decoder_utilization", "graphics_active",
            "sm_active", "sm_occupancy", "tensor_active", "memory_active", "fp64_active", "fp32_active", "fp16_active",
        )
    },
    **{name: (f"{name}_bytes", {}) for name in ("memory_used", "memory_free", "memory_reserved", "memory_total")},
    **{
        name: (f"{name}_bytes_per_second", {})
        for name in ("pcie_transmit", "pcie_receive", "nvlink_transmit", "nvlink_receive")
    },
}  # fmt: skip

# The same of `hypergauge.gpu.sample.GpuSample.board`.
BOARD: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "power": ("power_watts", {}),
    "power_limit": ("power_limit_watts", {}),
    "energy": ("energy_joules_total", {}),
    "temperature": ("temperature_celsius", {}),
    "memory_temperature": ("memory_temperature_celsius", {}),
    **{f"{clock}_clock": ("clock_hertz", {"clock": clock}) for clock in ("sm", "memory", "graphics", "video")},
    "fan_speed": ("fan_speed_ratio", {}),
    "performance_state": ("performance_state", {}),
    "pcie_replays": ("pcie_replays_total", {}),
    "ecc_corrected": ("ecc_errors_total", {"severity": "corrected"}),
    "ecc_uncorrected": ("ecc_errors_total", {"severity": "uncorrected"}),
    "remapped_corrected": ("remapped_rows_total", {"severity": "corrected"}),
    "remapped_uncorrected": ("remapped_rows_total", {"severity": "uncorrected"}),
    "remap_failure": ("row_remap_failure", {}),
}


class Families:
    """Families as they fill up. Samples of one may have different labels: a GPU has no instance, its instances have."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def add(self, name: str, labels: Mapping[str, str], figure: float) -> None:
        """Add a figure to the family called `name`, without the prefix."""
        family = self._families.get(name)
        if family is None:
            kind = "counter" if name.endswith("_total") else "gauge"
            family = Metric(_PREFIX + name.removesuffix("_total"), _HELP[name], kind)
            self._families[name] = family
        family.add_sample(_PREFIX + name, dict(labels), figure)

    def all(self) -> Iterator[Metric]:
        """Yield those that have any."""
        yield from (self._families[name] for name in _HELP if name in self._families)
