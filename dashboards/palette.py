"""Colors and strokes of runs and workloads: in Grafana, on paper and in the browser."""

from __future__ import annotations

__all__ = ["COLORS", "STROKES"]

# In the order of the SQL function `chart_style`. Distinct with most kinds of color blindness, on white and on black.
COLORS = (
    "#3274D9", "#E69F00", "#009E73", "#D55E00", "#A352CC", "#56B4E9",
    "#CC79A7", "#8C6D31", "#E0245E", "#7EB026", "#00A6A6", "#7F7F9F",
)  # fmt: skip
# Solid, dashed, dotted, as `chart_style` numbers them: strokes and spaces, in line widths.
STROKES: tuple[tuple[float, ...], ...] = ((), (4, 2), (1, 1.6))
