"""Random draws for a sweep's parameters. A seed gives the same values on every platform.

Draws use only ``random()`` of Python's generator, whose sequence Python guarantees across versions. Logarithms may
differ in the last digit between platforms, so values keep six digits. Each parameter has its own generator, seeded with
its name: a new parameter, or more draws, change no existing value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from random import Random

__all__ = ["DISTRIBUTIONS", "Value", "draw", "drawn_pairs"]

Value = bool | int | float | str


def draw(distribution: str, given: Sequence[Value], *, name: str, seed: int, count: int) -> list[Value]:
    """Draw `count` values of the parameter `name`.

    Parameters
    ----------
    distribution
        One of `DISTRIBUTIONS`.
    given
        Lower and upper end of the range, both included; for ``choice``, the options.

    Raises
    ------
    ValueError
        `given` does not fit the distribution.
    """
    make = DISTRIBUTIONS[distribution](given)
    random = Random(f"{seed}/{name}")
    return [make(random.random()) for _ in range(count)]


def drawn_pairs(points: int, share: float, seed: int) -> list[tuple[int, int]]:
    """Return a share of all pairs of points, by their indices in order; a point is also paired with itself.

    At least one pair is drawn. Whether a pair comes before another does not depend on the number of points.
    """
    pairs = list(combinations_with_replacement(range(points), 2))
    count = max(1, round(share * len(pairs)))
    if count == len(pairs):
        return pairs
    return sorted(sorted(pairs, key=lambda pair: Random(f"{seed}/{pair[0]}/{pair[1]}").random())[:count])


def _uniform(given: Sequence[Value]) -> Callable[[float], Value]:
    low, high = map(float, _range(given))
    return lambda share: _rounded(low + share * (high - low), low, high)


def _loguniform(given: Sequence[Value]) -> Callable[[float], Value]:
    low, high = map(float, _range(given))
    if low <= 0:
        raise ValueError(f"a loguniform range must begin above 0, not at {given[0]}")
    return lambda share: _rounded(low * math.exp(share * math.log(high / low)), low, high)


def _int(given: Sequence[Value]) -> Callable[[float], Value]:
    low, high = _range(given)
    if not isinstance(low, int) or not isinstance(high, int):
        raise ValueError(f"both ends must be whole numbers, not {low} and {high}")
    size = high - low + 1
    # ``random()`` is a multiple of 2**-53, so integer arithmetic is exact for a range of any width.
    return lambda share: low + (int(share * 2**53) * size >> 53)


def _choice(given: Sequence[Value]) -> Callable[[float], Value]:
    if not given:
        raise ValueError("the list of options is empty")
    return lambda share: given[int(share * len(given))]


def _range(given: Sequence[Value]) -> tuple[float, float]:
    ends = [end for end in given if isinstance(end, int | float) and not isinstance(end, bool)]
    if len(given) != 2 or len(ends) != 2:
        raise ValueError("a range must be two numbers, [low, high]")
    low, high = ends
    if not low < high:
        raise ValueError(f"the range ends at {given[1]}, which is not above its start {given[0]}")
    return low, high


def _rounded(value: float, low: float, high: float) -> float:
    return min(max(float(f"{value:.6g}"), low), high)


DISTRIBUTIONS: dict[str, Callable[[Sequence[Value]], Callable[[float], Value]]] = {
    "uniform": _uniform,
    "loguniform": _loguniform,
    "int": _int,
    "choice": _choice,
}
