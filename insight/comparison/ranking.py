"""Best and worst results, with one rule for ties: that of ``places`` in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["extremes", "four_digits"]


def extremes(
    values: Sequence[float | None], direction: int, order: Sequence[Any] | None = None
) -> tuple[list[int], list[int]]:
    """Return the indices of the best values, and of the worst. Both are empty if all values are equal.

    Values that agree in four digits are equal, so that no ranking depends on digits that are not shown.

    Parameters
    ----------
    values
        ``None`` for an unknown one, which is neither.
    direction
        1 if more is better, -1 if less is.
    order
        Sort key of each value, for the order of equal ones; by default their own order.
    """
    rounded = {at: direction * four_digits(value) for at, value in enumerate(values) if value is not None}
    if len(set(rounded.values())) < 2:
        return [], []
    best, worst = max(rounded.values()), min(rounded.values())
    ordered = sorted(rounded, key=lambda at: at if order is None else order[at])
    return [at for at in ordered if rounded[at] == best], [at for at in ordered if rounded[at] == worst]


def four_digits(value: float) -> float:
    """Return a number with four significant digits."""
    return float(f"{value:.3e}")
