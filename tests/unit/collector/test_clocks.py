"""Offsets of target clocks: the most certain reading counts, until drift or a step."""

from __future__ import annotations

import pytest

from hypergauge.collector.convert.clocks import Clock


def test_the_offset_is_relative_to_the_middle_of_the_request() -> None:
    clock = Clock()
    clock.read(1005.0, 1000.0, 1000.4)
    assert clock.offset == pytest.approx(4.8)
    assert clock.uncertainty == pytest.approx(0.2)


def test_the_most_certain_reading_counts() -> None:
    clock = Clock()
    clock.read(1005.05, 1000.0, 1000.1)
    clock.read(1006.3, 1001.0, 1001.6)
    assert clock.offset == pytest.approx(5.0)
    clock.read(1007.006, 1002.0, 1002.002)
    assert clock.offset == pytest.approx(5.005)
    assert clock.uncertainty == pytest.approx(0.001)


def test_drift_makes_old_readings_less_certain() -> None:
    clock = Clock()
    clock.read(1000.001, 1000.0, 1000.002)
    clock.read(1010.011, 1010.0, 1010.01)
    assert clock.offset == pytest.approx(0.0), "1 ms and 10 s of drift are more certain than 5 ms"
    clock.read(1100.011, 1100.0, 1100.01)
    assert clock.offset == pytest.approx(0.006)


def test_a_step_of_the_clock_is_noticed_at_once() -> None:
    clock = Clock()
    clock.read(1000.0, 1000.0, 1000.0)
    clock.read(1061.1, 1001.0, 1001.2)
    assert clock.offset == pytest.approx(60.0)


def test_a_step_back_of_our_clock_gives_no_reading() -> None:
    clock = Clock()
    clock.read(1000.0, 1000.0, 990.0)
    assert clock.offset is None


def shifts(*readings: tuple[float, float]) -> list[int]:
    """Return the shift after each reading, given as our time and the clock's time; a response takes 10 ms."""
    clock, found = Clock(), []
    for at, shown in readings:
        clock.read(shown, at - 0.005, at + 0.005)
        found.append(clock.shift)
    return found


def test_samples_are_shifted_by_whole_seconds_after_two_equal_readings() -> None:
    assert shifts((1000, 1300.4), (1001, 1301.4), (1002, 1302.4)) == [0, 300, 300]
    assert shifts((1000, 700.0), (1001, 701.0)) == [0, -300]
    assert shifts((1000, 1000.9), (1001, 1001.9)) == [0, 0], "NTP keeps clocks within a second"
    assert shifts((1000, 1001.6), (1001, 1002.6), (1002, 1003.2), (1003, 1004.2)) == [0, 2, 2, 2], "no oscillation"


def test_a_corrected_clock_ends_the_shift_and_a_stopped_one_causes_none() -> None:
    assert shifts((1000, 1300), (1001, 1301), (1002, 1002), (1003, 1003)) == [0, 300, 300, 0]
    assert shifts(*((1000 + at, 5000.0) for at in range(5))) == [0, 0, 0, 0, 0]
    assert shifts(*((1000 + at / 10, 5000.0) for at in range(5))) == [0, 0, 0, 0, 0]
