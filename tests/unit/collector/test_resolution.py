"""Rounding of gauges to what their sensors resolve."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.collector.write.resolution import rounded


@given(st.floats(1e-6, 1e6), st.floats(-1e6, 1e6))
def test_rounding_changes_no_value_by_more_than_the_resolution(resolution: float, value: float) -> None:
    [stored] = rounded(np.array([value]), np.array([resolution]))
    assert abs(stored - value) <= resolution


def test_a_rounded_value_has_few_binary_digits() -> None:
    values = np.random.default_rng(0).uniform(0, 1, 1000)
    stored = rounded(values, np.full(1000, 0.0001))
    short = stored * 8192 == np.rint(stored * 8192)
    assert np.count_nonzero(short) > 990
    assert (stored[~short] == values[~short]).all()


def test_a_value_with_no_more_digits_than_the_sensor_stays() -> None:
    values = np.array([0.96, 0.0001, 1.0, 0.0]).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(rounded(values, np.full(4, 0.0001)), values)


def test_only_values_with_a_resolution_are_rounded() -> None:
    values = np.array([0.123456, 0.123456, math.nan, 412.378])
    stored = rounded(values, np.array([0.0, 0.0001, 0.0001, 0.01]))
    np.testing.assert_array_equal(stored, [0.123456, 1011 / 8192, math.nan, 26392 / 64])
    assert rounded(values, np.zeros(4)) is values
