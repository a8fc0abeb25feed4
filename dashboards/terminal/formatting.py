"""Values as text, with their units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypergauge.insight.comparison.columns import CO2_KEY, DATA_WAIT, FLOPS_RATE, MFU, TIME_TO_TARGET

__all__ = ["SIMULATED", "SIMULATED_NOTE", "duration", "evidence", "value_text"]

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


def evidence(content: Mapping[str, Any]) -> str:
    """Return the evidence of a finding as text: ``share: 0.97; cores: 1.94``."""
    return "; ".join(f"{key.replace('_', ' ')}: {_evidence(key, value)}" for key, value in content.items())


def _evidence(key: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_evidence(key, one) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_evidence(key, one)}" for name, one in value.items())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value_text("_bytes", value) if key.endswith("_bytes") else f"{value:.3g}"
    return str(value)


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


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit in ("B", "KiB") else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


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
    "_bytes": _bytes, "_watts": "{:.0f} W".format, "_joules": _joules, "_per_second": _rate
}  # fmt: skip
