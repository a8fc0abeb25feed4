"""Rounding of gauges to what their sensors resolve: further digits are noise, and take most of a sample's space."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["rounded"]

# Half of the last binary digit of single precision, in which values arrive.
_SINGLE = 2.0**-24

Values = npt.NDArray[np.float64]


def rounded(values: Values, resolutions: Values) -> Values:
    """Return values that differ by at most their resolution; both arrays have shape ``(n,)``.

    A resolution of 0 keeps the value, and so does a value that is a multiple of its resolution, as 0.96 is of 0.0001.
    Others become multiples of a power of two: they end in zeros in binary, which compression needs. NaN stays.
    """
    at = np.flatnonzero(resolutions)
    if not len(at):
        return values
    given, resolution = values[at], resolutions[at]
    step = np.exp2(np.floor(np.log2(2 * resolution)))
    multiple = np.rint(given / resolution) * resolution
    result = values.copy()
    result[at] = np.where(np.abs(multiple - given) <= _SINGLE * np.abs(given), given, np.rint(given / step) * step)
    return result
