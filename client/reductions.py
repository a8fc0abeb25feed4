"""Reductions of arrays, for frameworks other than PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Reducer"]

_NAMES = ("min", "max", "mean", "std", "l1", "l2", "zeros", "nonfinite")


class Reducer:
    """Reductions of arrays as float32, little-endian.

    The standard deviation is over all elements (divisor ``n``). If elements are not finite, neither are the results that they
    contribute to.

    Parameters
    ----------
    ops
        Functions with NumPy's names for arrays on a device, as `keras.ops`; NumPy itself by default.
    compiled
        Returns the compiled form of a function of an array, as `jax.jit`, which is slow without.
    """

    def __init__(
        self, ops: Any = None, compiled: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    ) -> None:
        self._ops, self._row = ops, self._stacked
        if compiled is not None:
            self._row = compiled(self._row)

    def __call__(self, arrays: Sequence[Any]) -> dict[str, bytes]:
        """Return the reductions of arrays of floats that have elements."""
        import numpy

        if self._ops is None:
            with numpy.errstate(all="ignore"):  # a script may turn warnings into errors
                table = numpy.asarray([_reductions(numpy, array) for array in arrays], dtype="<f4")
        else:
            rows = self._ops.stack([self._row(array) for array in arrays])
            table = numpy.asarray(self._ops.convert_to_numpy(rows), dtype="<f4")  # one transfer
        return {name: table[:, column].tobytes() for column, name in enumerate(_NAMES)}

    def _stacked(self, array: Any) -> Any:
        return self._ops.stack([self._ops.cast(value, "float32") for value in _reductions(self._ops, array)])


def _reductions(ops: Any, array: Any) -> list[Any]:
    size = math.prod(int(length) for length in array.shape)
    return [
        ops.min(array),
        ops.max(array),
        ops.mean(array),
        ops.std(array),
        ops.sum(ops.abs(array)),
        ops.sqrt(ops.sum(ops.square(array))),
        1 - ops.count_nonzero(array) / size,
        1 - ops.count_nonzero(ops.isfinite(array)) / size,
    ]
