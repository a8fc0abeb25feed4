"""A changed host clock: durations and timeouts of runs stay the same."""

from __future__ import annotations

import time

import pytest

from hypergauge.scheduler.supervisor.run_clock import RunClock


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_it_continues_evenly_when_the_hosts_clock_is_set(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    wall, steady = 1.75e9, 1000.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: steady)
    clock = RunClock(wall - 0.25)  # the start took 0.25 s
    assert clock.now() == wall
    wall, steady = wall + step + 15, steady + 15
    assert clock.now() == 1.75e9 + 15
    assert clock.at(1010.0) == 1.75e9 + 10
