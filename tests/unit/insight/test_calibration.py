"""Costs of choices of exporters, from repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hypergauge.insight.calibration import BASELINE, PILOT, Repetition, blocks_needed, costs


def repetitions(seconds: Sequence[float], *, steps: bool = True, **exporters: float) -> list[Repetition]:
    return [Repetition(100 + one, one if steps else None, exporters, 0.01, 1e8) for one in seconds]


def test_a_choice_is_compared_with_none() -> None:
    measured = {BASELINE: repetitions([1.0, 1.1, 0.9]), "smi": repetitions([1.1, 1.1, 1.1], nvml=1.0)}
    none, smi = costs(measured)
    assert (none.slowdown, none.repetitions, none.per) == (None, 3, "step")
    assert none.seconds == pytest.approx(1.0)
    assert smi.slowdown is not None
    assert smi.slowdown.value == pytest.approx(0.1, abs=0.005)
    assert smi.slowdown.low is not None
    assert smi.slowdown.low < 0 < 0.1
    assert (smi.exporters, smi.memory_bytes) == ({"nvml": 1.0}, 1e8)
    assert smi.cpu_share == pytest.approx(0.01)


def test_whole_runs_count_if_one_tracks_no_steps() -> None:
    measured = {BASELINE: repetitions([1.0, 1.0]), "smi": repetitions([11.1, 11.1], steps=False)}
    none, smi = costs(measured)
    assert none.per == "run"
    assert none.seconds == pytest.approx(101.0)
    assert smi.slowdown is not None
    assert smi.slowdown.value == pytest.approx(0.1)


def test_an_interval_needs_two_repetitions() -> None:
    alone = costs({BASELINE: repetitions([1.0]), "smi": repetitions([1.0])})
    assert alone[1].half_width == float("inf")


def test_a_drift_of_the_host_does_not_widen_an_interval() -> None:
    measured = {BASELINE: repetitions([1.0, 1.5, 2.0]), "smi": repetitions([1.1, 1.65, 2.2])}
    found = costs(measured)[1]
    assert found.slowdown is not None
    assert found.slowdown.value == pytest.approx(0.1)
    assert found.half_width == pytest.approx(0, abs=1e-9)


def test_the_pilot_alone_determines_the_number_of_blocks() -> None:
    """A stop as soon as intervals are small covers less than promised."""
    steady = repetitions([1.0, 1.001] * PILOT)
    noisy = repetitions([1.0, 1.02, 0.99, 1.01, 0.985, 1.0])
    assert blocks_needed({BASELINE: steady, "smi": steady}, 0.005) == PILOT
    needed = blocks_needed({BASELINE: steady[:PILOT], "smi": noisy}, 0.005)
    assert needed > 5 * PILOT
    later = repetitions([1.0] * PILOT)
    assert blocks_needed({BASELINE: steady, "smi": noisy + later}, 0.005) == needed
    assert needed / 4 == pytest.approx(blocks_needed({BASELINE: steady, "smi": noisy}, 0.01), abs=1)
    assert blocks_needed({BASELINE: steady, "smi": noisy}, 0) > 10**9


def test_the_planned_number_of_blocks_gives_the_interval() -> None:
    spread = [1.0, 1.02, 0.99, 1.01, 0.985, 1.0]
    base = repetitions([1.0] * 6)
    needed = blocks_needed({BASELINE: base, "smi": repetitions(spread)}, 0.005)
    times = round(needed / 6)
    found = costs({BASELINE: base * times, "smi": repetitions(spread * times)})[1]
    assert found.half_width == pytest.approx(0.005, rel=0.15)


def test_a_host_that_became_busy_widens_the_interval() -> None:
    quiet, busy = [1.0, 1.001] * 3, [1.0, 1.2, 0.9, 1.1, 1.0, 0.8]
    base = repetitions([1.0] * 12)
    calm = costs({BASELINE: base, "smi": repetitions(quiet + quiet)})[1]
    disturbed = costs({BASELINE: base, "smi": repetitions(quiet + busy)})[1]
    assert disturbed.half_width > 20 * calm.half_width
