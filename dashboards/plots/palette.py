"""Colours and dashes of curves, for paper and for the browser."""

from __future__ import annotations

__all__ = ["DASHES", "LIGHT", "ON_DARK"]

# Okabe and Ito's colours, which people with any colour vision tell apart; without the yellow, too light for a line.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
# On a dark ground the black vanishes and the blue nearly does; there the yellow is seen.
ON_DARK = ("#56b4e9", "#e69f00", "#2fc99a", "#cc79a7", "#f0e442", "#d55e00", "#e8e8e8")
# Further curves in the same colours are told apart by these: strokes and spaces, in widths of the line.
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1.2), (5, 1.5, 1, 1.5), (8, 2), (3, 1, 1, 1, 1, 1))
