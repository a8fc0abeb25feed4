"""Colors and strokes of runs and workloads: in Grafana, on paper and in the browser."""

from __future__ import annotations

__all__ = ["COLORS", "LIGHTER", "STROKES"]

# In the order of the SQL function `chart_style`. Distinct with most kinds of color blindness, on white and on black.
COLORS = (
    "#3274D9", "#E69F00", "#009E73", "#D55E00", "#A352CC", "#56B4E9",
    "#CC79A7", "#8C6D31", "#E0245E", "#7EB026", "#00A6A6", "#7F7F9F",
)  # fmt: skip
# The same with more than half of white: the part of a run's time that the runs beside it cost.
LIGHTER = tuple(
    "#" + "".join(f"{round(255 - 0.42 * (255 - int(color[at : at + 2], 16))):02X}" for at in (1, 3, 5))
    for color in COLORS
)
# Solid, dashed, dotted, as `chart_style` numbers them: strokes and spaces, in line widths.
STROKES: tuple[tuple[float, ...], ...] = ((), (4, 2), (1, 1.6))
