"""Energy of one part of a host, split among its runs, idle time, and processes outside runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hypergauge.exporters.energy.cpu_time import CpuTime
from hypergauge.exporters.energy.idle_power import IdlePower

__all__ = ["HostSplit", "Method", "Share"]

Method = Literal["cpu_time", "cpu_time_no_idle"]

# Power over less than this is noise: a counter's steps are about a millisecond.
_SHORTEST_SECONDS = 0.5
# A host with fewer busy cores than this share is idle, as far as idle power is concerned.
_IDLE_SHARE = 0.1


class Share(NamedTuple):
    """Key of an amount of energy: its run and the method of attribution."""

    run_id: str
    method: Method


@dataclass(slots=True)
class _Pending:
    """CPU time since the last reading of the counter."""

    seconds: float = 0.0
    busy: float = 0.0
    idle: float = 0.0
    runs: dict[str, float] = field(default_factory=dict)

    def add(self, cpu: CpuTime) -> None:
        self.seconds += cpu.seconds
        self.busy += cpu.busy
        self.idle += cpu.idle
        for run_id, used in cpu.runs.items():
            self.runs[run_id] = self.runs.get(run_id, 0.0) + used


class HostSplit:
    """Split of a counter's energy, from reading to reading, by the rules of the GPUs' split.

    The lowest sustained power is idle power, see `IdlePower`, and belongs to no run. The rest is split by CPU time: a
    run's part is its CPU seconds over those of all processes and the kernel. Without CPU time, all energy is idle. In
    each interval the parts add up to the counter's increase.

    ==================== ==============================================================================================
    ``cpu_time``         the rule above
    ``cpu_time_no_idle`` the same before the host was seen idle, with at most a tenth of its cores busy: the lowest power
                         is then too high for idle power, and runs' parts are too small
    ==================== ==============================================================================================

    Attributes
    ----------
    idle, other, runs
        Totals in joules since the first reading. None of them ever falls.
    """

    def __init__(self) -> None:
        self.idle = self.other = 0.0
        self.runs: dict[Share, float] = {}
        self._counter: float | None = None
        self._pending = _Pending()
        self._idle_power = IdlePower()
        # Energy, seconds and CPU time since the power was last looked at.
        self._watched = [0.0, 0.0, 0.0, 0.0]
        # Idle energy that the counter has not shown yet.
        self._idle_due = 0.0

    def update(self, joules: float | None, cpu: CpuTime | None) -> None:
        """Add the energy since the previous reading.

        Parameters
        ----------
        joules
            The counter; ``None`` where it could not be read: the next reading covers this interval too.
        cpu
            CPU time since the previous update; ``None`` where it is unknown.
        """
        if cpu is not None:
            self._pending.add(cpu)
        if joules is None:
            return
        if self._counter is not None and cpu is not None and joules >= self._counter:
            self._divide(joules - self._counter)
        self._counter, self._pending = joules, _Pending()

    def forget(self, is_kept: Callable[[str], bool]) -> None:
        """Drop the totals of runs that are no longer needed."""
        self.runs = {share: joules for share, joules in self.runs.items() if is_kept(share.run_id)}

    def _divide(self, joules: float) -> None:
        cpu = self._pending
        idle = self._idle_part(joules)
        own = math.fsum(cpu.runs.values())
        # The kernel counts the time of a process and that of a core separately.
        whole = max(cpu.busy, own)
        if not whole:
            idle = joules
        self.idle += idle
        if whole:
            rest, method = joules - idle, self._method
            self.other += rest * (whole - own) / whole
            for run_id, mine in cpu.runs.items():
                share = Share(run_id, method)
                self.runs[share] = self.runs.get(share, 0.0) + rest * mine / whole

    @property
    def _method(self) -> Method:
        return "cpu_time" if self._idle_power.seen_free else "cpu_time_no_idle"

    def _idle_part(self, joules: float) -> float:
        cpu = self._pending
        new = (joules, cpu.seconds, cpu.busy, cpu.idle)
        self._watched = [one + more for one, more in zip(self._watched, new, strict=True)]
        watched_joules, watched_seconds, busy, idle_time = self._watched
        if watched_seconds >= _SHORTEST_SECONDS:
            is_free = busy + idle_time > 0 and busy <= _IDLE_SHARE * (busy + idle_time)
            self._idle_power.add(watched_joules / watched_seconds, watched_seconds, free=is_free)
            self._watched = [0.0, 0.0, 0.0, 0.0]
        if (watts := self._idle_power.watts) == math.inf:
            return joules
        self._idle_due += watts * cpu.seconds
        idle = min(joules, self._idle_due)
        # The energy of a long gap may be unknown, and then is not due.
        self._idle_due = min(self._idle_due - idle, watts * _SHORTEST_SECONDS)
        return idle
