"""Scripted CPU times of a host and its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypergauge.core.files.run_folder import RunEnd
from hypergauge.exporters.energy.cpu_time import CpuTime

__all__ = ["ScriptedCpuTimes"]


class ScriptedCpuTimes:
    """CPU times in the order of readings; the first reading has none, as in `CpuTimes`."""

    def __init__(self, times: Iterator[CpuTime], live: Mapping[str, float | None], ended: Mapping[str, RunEnd]) -> None:
        self.live, self.ended = live, ended
        self._times = times
        self._read = False

    def keeps(self, run_id: str) -> bool:
        return run_id in self.live or run_id in self.ended

    def read(self) -> CpuTime | None:
        first, self._read = not self._read, True
        return None if first else next(self._times)
