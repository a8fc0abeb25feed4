"""Limits of stored values."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.sql.ingest.limits import limited


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (sys.float_info.max, math.nan),
        (-math.inf, math.nan),
        (math.nan, math.nan),
        (1e150, 1e150),
        (-1e-150, -1e-150),
        (5e-324, 0.0),
        (0.0, 0.0),
    ],
)
def test_a_value_outside_the_limits_is_missing_or_zero(given: float, stored: float) -> None:
    assert limited(np.array([1.0, given])).tolist() == pytest.approx([1.0, stored], rel=0, abs=0, nan_ok=True)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1))
def test_squares_of_stored_values_are_doubles(values: list[float]) -> None:
    for value in limited(np.array(values)).tolist():
        assert math.isnan(value) or value == 0 or 0 < value**2 < math.inf
