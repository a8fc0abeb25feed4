"""Colors and dashes of curves: in Grafana, on paper and in the browser."""

from __future__ import annotations

__all__ = ["COLORS", "DASHES", "LIGHT", "ON_DARK"]

# In the order of the SQL function `chart_style`. Distinct with most kinds of color blindness, on white and on black.
COLORS = (
    "#3274D9", "#E69F00", "#009E73", "#D55E00", "#A352CC", "#56B4E9",
    "#CC79A7", "#8C6D31", "#E0245E", "#7EB026", "#00A6A6", "#7F7F9F",
)  # fmt: skip

# Okabe and Ito's colors, distinct with any color vision; without yellow, which is too light for a line.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
# Black and blue are hardly visible on a dark background; yellow is.
ON_DARK = ("#56b4e9", "#e69f00", "#2fc99a", "#cc79a7", "#f0e442", "#d55e00", "#e8e8e8")
# Dashes of further curves in the same colors: strokes and spaces, in line widths.
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1.2), (5, 1.5, 1, 1.5), (8, 2), (3, 1, 1, 1, 1, 1))
