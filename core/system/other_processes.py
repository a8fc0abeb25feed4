"""CPU time of a host that is not of runs, nor of hypergauge.

A process is ours if it has the variable of a run, of its supervisor or of a service, or descends from one that has. Another user's
variables cannot be read, so that user's runs count as other processes. The time of all processes is that of the host's cores in
``/proc/stat``: it holds those that live for a moment, and those of containers, which have no name here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.core.system.processes import OWN_VARIABLES, ProcessStat, read_environment, read_stat

__all__ = ["HostCpu", "OtherUse"]

_TICKS = os.sysconf("SC_CLK_TCK")
# Column numbers in the line `cpu` of /proc/stat: user, nice, system, irq, softirq. Guests are in the first two.
_BUSY = (1, 2, 3, 6, 7)
# Programs with a smaller share of a core are not named.
_LEAST_CORES = 0.05


@dataclass(frozen=True, slots=True)
class OtherUse:
    """Use of a host's cores by other processes.

    Attributes
    ----------
    used
        Cores that they use.
    cores
        Cores of the host.
    programs
        Names of the programs that use most, and their cores; processes of one name together.
    """

    used: float
    cores: int
    programs: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True, slots=True)
class _Snapshot:
    at: float
    busy: float
    cores: int
    processes: Mapping[int, ProcessStat]


@dataclass
class HostCpu:
    """CPU time of a host's processes since it was created, or since the last call of `restart`.

    Attributes
    ----------
    root
        Root of the file system with ``proc``.
    own
        Processes that are ours with their descendants.
    """

    root: Path = Path("/")
    own: Collection[int] = field(default_factory=lambda: (os.getpid(),))

    def __post_init__(self) -> None:
        self._proc = os.fspath(self.root / "proc")
        self.restart()

    def restart(self) -> None:
        """Measure from now on."""
        self._began = self._snapshot()

    @property
    def seconds(self) -> float:
        """Return the time since the start of the measurement."""
        return time.monotonic() - self._began.at

    def other_use(self, seconds: float | None = None) -> OtherUse:
        """Return the use by other processes since the start of the measurement.

        Parameters
        ----------
        seconds
            Duration of the measurement; by default that of the clock.
        """
        began, now = self._began, self._snapshot()
        seconds = max(seconds or now.at - began.at, 1 / _TICKS)
        ours = _Ours(self, now.processes)
        our_seconds = 0.0
        programs: dict[str, float] = {}
        for pid, process in now.processes.items():
            before = began.processes.get(pid)
            if before is None or before.created != process.created:
                before = None
            used = _seconds(process) - (_seconds(before) if before else 0.0)
            if not used:
                continue
            if pid in ours:
                our_seconds += used
            elif before is not None:
                cores = (process.own_seconds - before.own_seconds) / seconds
                programs[process.name] = programs.get(process.name, 0.0) + cores
        # The time of an ended process before the measurement is in that of its parent now.
        our_seconds -= sum(
            _seconds(process)
            for pid, process in began.processes.items()
            if pid not in now.processes and process.parent in ours
        )
        other_cores = (now.busy - began.busy - max(our_seconds, 0.0)) / seconds
        most = sorted(programs.items(), key=lambda program: (-program[1], program[0]))
        named = tuple((name, cores) for name, cores in most if cores >= _LEAST_CORES)
        return OtherUse(min(max(other_cores, 0.0), float(now.cores)), now.cores, named)

    def name(self, pid: int) -> str:
        """Return the name of a process, or its pid if it is not visible here."""
        stat = read_stat(pid, self._proc)
        return f"process {pid}" if stat is None else stat.name

    def _snapshot(self) -> _Snapshot:
        lines = Path(self._proc, "stat").read_text().splitlines()
        at = time.monotonic()
        busy = next(line.split() for line in lines if line.startswith("cpu "))
        cores = sum(line.startswith("cpu") and line[3].isdigit() for line in lines)
        pids = [int(name) for name in os.listdir(self._proc) if name.isdigit()]  # noqa: PTH208 - no Path each
        processes = {pid: process for pid in pids if (process := read_stat(pid, self._proc)) is not None}
        return _Snapshot(at, sum(int(busy[column]) for column in _BUSY) / _TICKS, max(cores, 1), processes)

    def is_marked(self, pid: int) -> bool:
        """Return whether a process is ours by itself, without its ancestors."""
        return pid in self.own or bool(read_environment(pid, OWN_VARIABLES, self._proc))


def _seconds(process: ProcessStat) -> float:
    """Return the CPU time of a process with that of its ended children."""
    return process.own_seconds + process.reaped_seconds


class _Ours:
    """Processes that are ours, by themselves or by an ancestor; each is examined once, and only if it is asked for."""

    def __init__(self, cpu: HostCpu, processes: Mapping[int, ProcessStat]) -> None:
        self._cpu, self._processes = cpu, processes
        self._known: dict[int, bool] = {0: False}

    def __contains__(self, pid: int) -> bool:
        line = [pid]
        while line[-1] not in self._known and (process := self._processes.get(line[-1])) is not None:
            if self._cpu.is_marked(line[-1]):
                self._known[line[-1]] = True
            elif process.parent in line:  # a pid that was reused between two readings
                break
            else:
                line.append(process.parent)
        ours = self._known.get(line[-1], False)
        self._known |= dict.fromkeys(line, ours)
        return ours
