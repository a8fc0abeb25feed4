"""Costs of choices of exporters, from repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hypergauge.insight.calibration import BASELINE, Repetition, costs, is_settled


def repetitions(seconds: Sequence[float], *, steps: bool = True, **exporters: float) -> list[Repetition]:
    return [Repetition(100 + one, one if steps else None, exporters, 0.01, 1e8) for one in seconds]


def test_a_choice_is_compared_with_none() -> None:
    measured = {BASELINE: repetitions([1.0, 1.1, 0.9]), "smi": repetitions([1.1, 1.2, 1.0], nvml=1.0)}
    none, smi = costs(measured)
    assert (none.slowdown, none.repetitions, none.per) == (None, 3, "step")
    assert none.seconds == pytest.approx(1.0)
    assert smi.slowdown is not None
    assert smi.slowdown.value == pytest.approx(0.1)
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
    assert not is_settled(alone, 1.0)


def test_it_is_settled_once_all_intervals_are_small() -> None:
    steady = repetitions([1.0, 1.001, 0.999, 1.0])
    assert is_settled(costs({BASELINE: steady, "smi": steady}), 0.005)
    assert not is_settled(costs({BASELINE: steady, "smi": steady, "dcgmi": repetitions([1.0, 1.1, 0.9])}), 0.005)
