"""Values as text, with their units."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypergauge.core.sizes import size_text
from hypergauge.insight.comparison.columns import CO2_KEY, DATA_WAIT, FLOPS_RATE, MFU, TIME_TO_TARGET

__all__ = ["SIMULATED", "SIMULATED_NOTE", "duration", "value_text"]

# Suffix of the label of a run on simulated GPUs, and its meaning.
SIMULATED = " *"
SIMULATED_NOTE = "* on simulated GPUs: their metrics are not real"


def duration(seconds: float | None) -> str:
    """Return a duration as text: ``20 ms``, ``4.2 s``, ``3:07``, ``2:03:07``."""
    if seconds is None:
        return ""
    if seconds < 0.95:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def value_text(key: str, value: float | None) -> str:
    """Return a value of a comparison with its unit."""
    if value is None:
        return ""
    if key in _TEXTS:
        return _TEXTS[key](value)
    for suffix, text in _BY_SUFFIX.items():
        if key.endswith(suffix):
            return text(value)
    return f"{value:.2f}" if key.startswith("cost_") and value >= 1 else f"{value:.4g}"


def _joules(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:.1f} kJ"
    if value >= 9.95:
        return f"{value:.0f} J"
    return f"{value * 1000:.3g} mJ" if 0 < value < 0.0995 else f"{value:.2g} J"


def _flops(value: float) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}FLOPS"
        value /= 1000
    return f"{value:.3g} PFLOPS"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# Texts of values by their column, else by the suffix of the column.
_TEXTS: Mapping[str, Callable[[float], str]] = {
    **dict.fromkeys(("duration_seconds", "makespan_seconds", "cpu_seconds", TIME_TO_TARGET), duration),
    "cpu_utilization": "{:.2f} cores".format,
    **dict.fromkeys(("gpu_utilization", "gpu_sm_active"), "{:.0%}".format),
    **dict.fromkeys((DATA_WAIT, MFU), "{:.1%}".format),
    FLOPS_RATE: _flops,
    CO2_KEY: lambda value: f"{value / 1000:.2f} kg" if value >= 1000 else f"{value:.3g} g",
}
_BY_SUFFIX: Mapping[str, Callable[[float], str]] = {
    "_bytes": size_text, "_watts": "{:.0f} W".format, "_joules": _joules, "_per_second": _rate
}  # fmt: skip
