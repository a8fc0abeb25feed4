"""Axes of charts: readable units, and labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypergauge.insight.quantities import display_name

__all__ = ["Axis", "time_axis", "value_axis"]

_UNITS = {"watts": "W", "joules": "J", "hertz": "Hz", "celsius": "°C", "seconds": "s", "bytes/s": "B/s", "bytes": "B"}
_PREFIXED = {"W", "J", "Hz", "s", "events/s", "instructions/cycle"}
_DECIMAL = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
# Units of time: from this many seconds on, seconds in the unit, and its name.
_TIMES = ((3 * 86_400, 86_400, "days"), (3 * 3600, 3600, "h"), (300, 60, "min"), (0, 1, "s"))


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis with a name, the unit of its ticks, and the `size` of that unit in canonical units."""

    name: str
    unit: str
    size: float = 1.0

    @property
    def title(self) -> str:
        """Label of the axis: ``GPU power (kW)``."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


def value_axis(metric: str, unit: str, largest: float) -> Axis:
    """Return the axis of a metric with the maximum `largest`, in its canonical unit.

    Parameters
    ----------
    unit
        Canonical unit of the catalog; empty for a software metric, which keeps its name.
    """
    name = display_name(metric) if unit and "/" not in metric else metric
    if unit == "ratio":
        return Axis(name, "%", 0.01)
    short = _UNITS.get(unit, unit)
    if short.startswith("B"):
        power = 0 if largest < 1024 else min(int(math.log2(largest) // 10), len(_BINARY) - 1)
        return Axis(name, _BINARY[power] + short, 1024.0**power)
    if short in _PREFIXED and largest > 0:
        power = min(max(math.floor(math.log10(largest) / 3) * 3, -9), 15)
        return Axis(name, _DECIMAL[power] + short, 10.0**power)
    return Axis(name, short)


def time_axis(align: str, longest: float) -> Axis:
    """Return the common axis of runs, the longest of which has `longest` seconds, steps or epochs."""
    if align in ("step", "epoch"):
        return Axis(align, "")
    size, unit = next((size, unit) for start, size, unit in _TIMES if longest >= start)
    since = {"time": "the start", "phase": "training began"}.get(align, f"{align.removeprefix('phase:')} began")
    return Axis(f"time since {since}", unit, size)
