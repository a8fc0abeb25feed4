"""Metrics of a GPU and its compute instances, with the NVML function of each."""

from __future__ import annotations

from hypergauge.core.throttle_reasons import REASONS
from hypergauge.gpu.queries import Queries, known

__all__ = ["device_metrics", "memory", "throttle", "utilization"]

_MEGA, _ONE, _PERCENT, _MILLI = 6, 0, -2, -3
_VOLATILE = 0
# Name, function, arguments, power of ten to the SI unit. The second entry of a name applies where the first has no value.
_DEVICE: tuple[tuple[str, str, tuple[int, ...], int], ...] = (
    ("power", "nvmlDeviceGetPowerUsage", (), _MILLI),
    ("power_limit", "nvmlDeviceGetEnforcedPowerLimit", (), _MILLI),
    ("energy", "nvmlDeviceGetTotalEnergyConsumption", (), _MILLI),
    ("temperature", "nvmlDeviceGetTemperature", (0,), _ONE),
    ("temperature", "nvmlDeviceGetTemperatureV", (0,), _ONE),  # its replacement from CUDA 14 on
    ("graphics_clock", "nvmlDeviceGetClockInfo", (0,), _MEGA),
    ("sm_clock", "nvmlDeviceGetClockInfo", (1,), _MEGA),
    ("memory_clock", "nvmlDeviceGetClockInfo", (2,), _MEGA),
    ("video_clock", "nvmlDeviceGetClockInfo", (3,), _MEGA),
    ("fan_speed", "nvmlDeviceGetFanSpeed", (), _PERCENT),
    ("performance_state", "nvmlDeviceGetPerformanceState", (), _ONE),
    ("pcie_replays", "nvmlDeviceGetPcieReplayCounter", (), _ONE),
    ("ecc_corrected", "nvmlDeviceGetTotalEccErrors", (0, _VOLATILE), _ONE),
    ("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", (1, _VOLATILE), _ONE),
)
_UNKNOWN_STATE = 32
_MEMORY_V2 = 0x02000028


def device_metrics(gpu: Queries) -> dict[str, float]:
    """Return the metrics of `hypergauge.gpu.sampling.sample.GpuSample.metrics`, except those of `Fields`."""
    metrics: dict[str, float] = {}
    for name, function, arguments, power in _DEVICE:
        if name not in metrics and known(value := gpu.query(function, *arguments)):
            metrics[name] = _scaled(value, power)
    if metrics.get("performance_state") == _UNKNOWN_STATE:
        del metrics["performance_state"]
    if rows := gpu.query("nvmlDeviceGetRemappedRows"):
        corrected, uncorrected, _pending, failure = rows
        metrics |= {
            "remapped_corrected": float(corrected),
            "remapped_uncorrected": float(uncorrected),
            "remap_failure": float(bool(failure)),
        }
    return metrics


def memory(gpu: Queries, of: object = None) -> dict[str, float]:
    """Return the memory of the GPU or of a MIG device in bytes.

    Where the driver does not report reserved memory separately, it counts as used.
    """
    answer = gpu.query("nvmlDeviceGetMemoryInfo", _MEMORY_V2, of=of)
    if answer is None:
        answer = gpu.query("nvmlDeviceGetMemoryInfo", of=of)
    names = ("total", "used", "free", "reserved")
    values = {f"memory_{name}": getattr(answer, name, None) for name in names}
    return {name: float(value) for name, value in values.items() if known(value)}


def utilization(gpu: Queries) -> dict[str, float]:
    """Return the utilization ratios of a GPU without MIG, by the driver's counters."""
    metrics = {}
    if rates := gpu.query("nvmlDeviceGetUtilizationRates"):
        metrics = {"utilization": rates.gpu, "memory_utilization": rates.memory}
    for name, function in (
        ("encoder_utilization", "nvmlDeviceGetEncoderUtilization"),
        ("decoder_utilization", "nvmlDeviceGetDecoderUtilization"),
    ):
        if answer := gpu.query(function):
            metrics[name] = answer[0]
    return {name: _scaled(value, _PERCENT) for name, value in metrics.items() if known(value)}


def throttle(gpu: Queries) -> dict[str, bool] | None:
    """Return by reason whether it limits the clocks now, ``None`` where the driver does not report it."""
    for form in ("EventReasons", "ThrottleReasons"):  # the second until CUDA 12.2
        now = gpu.query(f"nvmlDeviceGetCurrentClocks{form}")
        if now is not None:
            supported = gpu.query(f"nvmlDeviceGetSupportedClocks{form}")
            return {name: bool(now & bit) for bit, name in REASONS.items() if supported is None or supported & bit}
    return None


def _scaled(value: float, power: int) -> float:
    # Division rounds correctly: 57 / 100 is 0.57, 57 * 0.01 is not. Fewer digits compress better.
    return float(value * 10**power if power >= 0 else value / 10**-power)
