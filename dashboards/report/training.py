"""Small curves and values of the health of trainings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypergauge.dashboards.terminal.formatting import duration
from hypergauge.insight.training import HealthLine

__all__ = ["HEIGHT", "WIDTH", "reading", "spark", "worst"]

# Size of a small curve in pixels.
WIDTH, HEIGHT = 120, 22


def spark(values: Sequence[float]) -> str:
    """Return the points of a line in SVG, from the left to the right edge."""
    low, high = min(values), max(values)
    span = high - low
    across = max(len(values) - 1, 1)
    return " ".join(
        f"{WIDTH * at / across:.1f},{HEIGHT - 1 - ((value - low) / span if span else 0.5) * (HEIGHT - 2):.1f}"
        for at, value in enumerate(values)
    )


def reading(value: float, unit: str) -> str:
    """Return a value with its unit: shares in percent."""
    if math.isnan(value):
        return "NaN"
    return f"{100 * value:.3g} %" if unit == "ratio" else f"{value:.3g}"


def worst(line: HealthLine) -> str:
    """Return when the worst value was, and in which tensor."""
    when = f"at {duration(line.worst_at)}" if line.worst_at >= 1 else "at the start"
    return f"{when}, {line.tensor}" if line.tensor else when
