"""Values as text, with their units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypergauge.insight.comparison.columns import CO2_KEY, TIME_TO_TARGET

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
    if key in ("duration_seconds", "makespan_seconds", "cpu_seconds", TIME_TO_TARGET):
        return duration(value)
    if key.endswith("_bytes"):
        return _bytes(value)
    if key == "cpu_utilization":
        return f"{value:.2f} cores"
    if key in ("gpu_utilization", "gpu_sm_active"):
        return f"{value:.0%}"
    if key.endswith("_watts"):
        return f"{value:.0f} W"
    if key.endswith("_joules"):
        return _joules(value)
    if key == CO2_KEY:
        return f"{value / 1000:.2f} kg" if value >= 1000 else f"{value:.3g} g"
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


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit in ("B", "KiB") else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
