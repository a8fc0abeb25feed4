"""Who sets the host's clock changes neither how long a run lasted nor when its time is over."""

from __future__ import annotations

import time

import pytest

from hypergauge.scheduler.supervisor.run_clock import RunClock


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_it_goes_on_evenly_when_the_hosts_clock_is_set(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    wall, steady = 1.75e9, 1000.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: steady)
    clock = RunClock(wall - 0.25)  # it took as long to begin
    assert clock.now() == wall
    wall, steady = wall + step + 15, steady + 15
    assert clock.now() == 1.75e9 + 15
    assert clock.at(1010.0) == 1.75e9 + 10
