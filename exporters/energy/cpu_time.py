"""CPU time of a host and of its runs, from reading to reading."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypergauge.core.files.run_folder import RunEnd
from hypergauge.core.system.kernel_file import read_file
from hypergauge.core.system.processes import RunProcesses
from hypergauge.exporters.process.run_exits import RunExits
from hypergauge.exporters.process.usage import RunUsage
from hypergauge.exporters.serving.registry import ExporterOptions

__all__ = ["CpuTime", "CpuTimes"]

_TICKS = os.sysconf("SC_CLK_TCK")
# Longest delay between a run's start and the first reading that sees it, in seconds.
_SLACK = 5.0


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU seconds in an interval.

    Attributes
    ----------
    seconds
        Length of the interval.
    busy
        Of all processes and the kernel, over all cores.
    idle
        Of idle cores, waiting for disks included.
    runs
        Of runs, by id. A run has the time until its end.
    """

    seconds: float
    busy: float
    idle: float
    runs: Mapping[str, float]


class CpuTimes:
    """CPU time of the host's runs, including that of processes that ended between two readings.

    The recorded end of a run has its exact time. So a run that no reading saw has its time in the interval of its end.
    Runs whose processes are not recognized, such as those of other users without root, have none: their time is part of the
    host's.

    Attributes
    ----------
    live
        Starts of the runs with living processes at the last reading, in Unix seconds, by id; ``None`` where unknown.
    """

    def __init__(self, options: ExporterOptions) -> None:
        self._processes = RunProcesses()
        self._exits = RunExits(options.runs_dir, options.own_runs)
        self._usage: dict[str, RunUsage] = {}
        self._counted: dict[str, float] = {}
        self._host: tuple[float, float] | None = None
        self._time = self._read_at = 0.0  # of the last reading: monotonic, and Unix seconds
        self.live: dict[str, float | None] = {}

    @property
    def ended(self) -> Mapping[str, RunEnd]:
        """Ends of the last minute by run."""
        return self._exits.recent

    def keeps(self, run_id: str) -> bool:
        """Return whether a run's totals are still needed."""
        return run_id in self._usage or run_id in self.ended

    def read(self) -> CpuTime | None:
        """Return the CPU time since the last reading; ``None`` at the first one, and without ``/proc/stat``."""
        read_at, host, now = time.monotonic(), _host_seconds(), time.time()
        trees = self._processes.scan()
        self._exits.update(now)
        self.live = {}
        for run_id, tree in trees.items():
            if run_id in self._exits or not self._exits.exposes(run_id):
                continue
            usage = self._usage.setdefault(run_id, RunUsage(cpu_alone=True))
            if usage.update(tree, now):
                self.live[run_id] = self._exits.started_at(run_id)
        totals = {run_id: usage.cpu_seconds for run_id, usage in self._usage.items()}
        for run_id, end in self.ended.items():
            totals[run_id] = max(end.cpu_seconds, totals.get(run_id, 0.0))
        self._usage = {
            run_id: usage for run_id, usage in self._usage.items() if self._exits.keeps(run_id, usage.seen_at, now)
        }
        last_host, self._host = self._host, host
        last, self._counted = self._counted, totals
        seconds, self._time = read_at - self._time, read_at
        last_at, self._read_at = self._read_at, now
        if last_host is None or host is None:
            return None
        busy, idle = (max(mine - before, 0.0) for mine, before in zip(host, last_host, strict=True))
        used = {
            run_id: total - last.get(run_id, total if self._began_before(run_id, last_at) else 0.0)
            for run_id, total in totals.items()
        }
        return CpuTime(seconds, busy, idle, {run_id: one for run_id, one in used.items() if one > 0})

    def _began_before(self, run_id: str, last_at: float) -> bool:
        """Return whether a run that is seen first now has used its time before the last reading."""
        started_at = self.ended[run_id].started_at if run_id in self.ended else self.live.get(run_id)
        return started_at is not None and started_at < last_at - _SLACK


def _host_seconds() -> tuple[float, float] | None:
    """Return busy and idle seconds of all cores since the host's boot, see proc_stat(5).

    Time of guests is part of that of their processes; stolen time is that of other virtual machines.
    """
    words = read_file(Path("/proc/stat")).partition("\n")[0].split()
    if not words or words[0] != "cpu":
        return None
    user, nice, system, idle, waiting, interrupts, soft = (int(word) / _TICKS for word in words[1:8])
    return user + nice + system + interrupts + soft, idle + waiting
