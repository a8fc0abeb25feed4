"""Changes against a baseline, with their intervals."""

from __future__ import annotations

import statistics

import pytest
from scipy import stats

from hypergauge.insight.sharing.ratio import ratio
from tests.support.world import World, one


@pytest.mark.parametrize("freedom", [0.5, 1, 1.5, 2.7, 5, 11, 44, 1000])
def test_students_t_is_that_of_scipy(world: World, freedom: float) -> None:
    exact = stats.t.ppf(0.975, max(freedom, 1))
    assert one(world, "select t_value(%s)", freedom) == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(
    ("mine", "base"),
    [
        ([12.0, 13.0], [10.0, 11.0]),
        ([100.0, 101.0, 99.5, 100.2], [100.5, 99.0]),
        ([3.0, 3.1, 2.9], [6.0, 6.3, 5.5, 6.1, 6.2]),
    ],
)
def test_a_change_has_the_interval_that_interference_has(world: World, mine: list[float], base: list[float]) -> None:
    exact = ratio(mine, [base])
    assert exact.low is not None
    assert exact.high is not None
    value, low, high = one(world, "select * from change(%s, %s)", mine, base)
    assert value == pytest.approx(exact.value - 1)
    assert (1 + low, 1 + high) == (pytest.approx(exact.low, rel=0.001), pytest.approx(exact.high, rel=0.001))


def test_values_on_both_sides_of_0_have_a_wide_interval(world: World) -> None:
    value, low, high = one(world, "select * from change(%s, %s)", [-10.0, 10.001], [1.0, 1.1])
    assert value == pytest.approx(-1, abs=0.001)
    assert low == -1
    assert high > 1e6
    assert one(world, "select (select change_text(%s, %s))", [-10.0, 10.001], [1.0, 1.1]).startswith("≈ -100%")


@pytest.mark.parametrize(
    ("mine", "base", "text"),
    [
        ([12.0], [10.0], "+20%"),
        ([9.55], [10.0], "-4.5%"),
        ([10.0], [10.0], "0.0%"),
        ([12.0, 12.0], [10.0, 10.0], "+20% (+20 to +20)"),
        ([10.0, 10.2, 9.9], [10.0, 10.1, 10.0], "≈ 0.0%"),
        ([], [10.0], None),
        ([1.0], [0.0], None),
    ],
)
def test_a_change_shows_whether_it_may_be_noise(
    world: World, mine: list[float], base: list[float], text: str | None
) -> None:
    found = one(world, "select (select change_text(%s::float8[], %s::float8[]))", mine, base)
    assert found == text if text is None else found.startswith(text)


def test_a_ratio_to_a_sum_has_the_interval_that_interference_has(world: World) -> None:
    beside, alone = [15.0, 16.2, 15.4], [[7.0, 7.3], [8.1, 8.0, 8.4, 8.2, 8.3]]
    exact = ratio(beside, alone)
    samples = [(statistics.fmean(some), statistics.variance(some), len(some)) for some in (beside, *alone)]
    mine, means, variances, counts = samples[0], *(list(column) for column in zip(*samples[1:], strict=True))
    found = one(
        world,
        "select * from ratio(%s, %s, %s, %s::float8[], %s::float8[], %s::bigint[])",
        *mine,
        means,
        variances,
        counts,
    )
    assert found == pytest.approx((exact.value, exact.low, exact.high), rel=0.001)
