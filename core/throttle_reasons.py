"""NVIDIA's reasons for reduced clocks, and those of them that throttle a GPU.

Source: nvml.h, ``nvmlClocksEventReasons``; DCGM and nvidia-smi have the same bits.
"""

from __future__ import annotations

__all__ = ["REASONS", "THROTTLING", "THROTTLING_MASK"]

# Reasons by bit.
REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
# Heat and power throttle. The other reasons are idle GPUs and clocks that a user has set: these clocks are as intended.
THROTTLING = frozenset(
    {"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
)
THROTTLING_MASK = sum(bit for bit, name in REASONS.items() if name in THROTTLING)
