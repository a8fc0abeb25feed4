"""Colors and dashes of curves, for paper and for the browser."""

from __future__ import annotations

__all__ = ["DASHES", "LIGHT", "ON_DARK"]

# Okabe and Ito's colors, distinct with any color vision; without yellow, which is too light for a line.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
# Black and blue are hardly visible on a dark background; yellow is.
ON_DARK = ("#56b4e9", "#e69f00", "#2fc99a", "#cc79a7", "#f0e442", "#d55e00", "#e8e8e8")
# Dashes of further curves in the same colors: strokes and spaces, in line widths.
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1.2), (5, 1.5, 1, 1.5), (8, 2), (3, 1, 1, 1, 1, 1))
