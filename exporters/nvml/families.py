"""Metrics of the exporter ``nvml``, by the metric's name in a sample of a GPU."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DEVICE", "GPU"]

# By metric of `hypergauge.gpu.sampling.sample.DeviceSample`: the family without its prefix, and the distinguishing labels.
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

# The same of `hypergauge.gpu.sampling.sample.GpuSample.metrics`.
GPU: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "power": ("power_watts", {}),
    "power_peak": ("power_peak_watts", {}),
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
