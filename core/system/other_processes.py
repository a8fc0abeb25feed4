"""CPU time of a host that is not of runs, nor of hypergauge.

A process is ours if it has the variable of a run or of its supervisor, is a service of hypergauge, or descends from one that is. Another
user's variables cannot be read, so that user's runs count as other processes. The time of all processes is that of the host's cores in
``/proc/stat``: it holds those that live for a moment, and those of containers, which have no name here.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.core.system.processes import RUN_VARIABLE, SUPERVISOR_VARIABLE

__all__ = ["HostCpu", "OtherUse"]

_TICKS = os.sysconf("SC_CLK_TCK")
# Column numbers in the line `cpu` of /proc/stat: user, nice, system, irq, softirq. Guests are in the first two.
_BUSY = (1, 2, 3, 6, 7)
_MARKS = tuple(variable + b"=" for variable in (RUN_VARIABLE, SUPERVISOR_VARIABLE))
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
class _Process:
    parent: int
    name: str
    created: int
    own: float
    reaped: float

    @property
    def seconds(self) -> float:
        """CPU time, with that of ended children."""
        return self.own + self.reaped


@dataclass(frozen=True, slots=True)
class _Snapshot:
    at: float
    busy: float
    cores: int
    processes: Mapping[int, _Process]


@dataclass
class HostCpu:
    """CPU time of a host's processes since it was created, or since the last call of `restart`.

    Attributes
    ----------
    home
        ``BENCH_HOME``: a process with this folder in its command line is ours, such as the database server.
    root
        Root of the file system with ``proc``.
    own
        Processes that are ours with their descendants.
    """

    home: Path
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
            if process.seconds == (before.seconds if before else 0.0):
                continue
            if pid in ours:
                our_seconds += process.seconds - (before.seconds if before else 0.0)
            elif before is not None:
                programs[process.name] = programs.get(process.name, 0.0) + (process.own - before.own) / seconds
        # The time of an ended process before the measurement is in that of its parent now.
        our_seconds -= sum(
            one.seconds for pid, one in began.processes.items() if pid not in now.processes and one.parent in ours
        )
        used = (now.busy - began.busy - max(our_seconds, 0.0)) / seconds
        most = sorted(programs.items(), key=lambda one: (-one[1], one[0]))
        return OtherUse(
            min(max(used, 0.0), float(now.cores)), now.cores, tuple(one for one in most if one[1] >= _LEAST_CORES)
        )

    def name(self, pid: int) -> str:
        """Return the name of a process, or its pid if it is not visible here."""
        try:
            return Path(self._proc, str(pid), "comm").read_text().strip()
        except OSError:
            return f"process {pid}"

    def _snapshot(self) -> _Snapshot:
        lines = Path(self._proc, "stat").read_text().splitlines()
        at = time.monotonic()
        busy = next(line.split() for line in lines if line.startswith("cpu "))
        cores = sum(line.startswith("cpu") and line[3].isdigit() for line in lines)
        pids = [int(name) for name in os.listdir(self._proc) if name.isdigit()]  # noqa: PTH208 - no Path each
        processes = {pid: process for pid in pids if (process := self._read(pid)) is not None}
        return _Snapshot(at, sum(int(busy[column]) for column in _BUSY) / _TICKS, max(cores, 1), processes)

    def _read(self, pid: int) -> _Process | None:
        try:
            with open(f"{self._proc}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - the cheapest way
                text = file.read(4096)
        except OSError:
            return None
        opening, closing = text.index(b"("), text.rindex(b")")
        name = text[opening + 1 : closing].decode(errors="replace")
        fields = text[closing + 2 :].split()
        return _Process(
            int(fields[1]), name, int(fields[19]),
            (int(fields[11]) + int(fields[12])) / _TICKS, (int(fields[13]) + int(fields[14])) / _TICKS,
        )  # fmt: skip

    def is_marked(self, pid: int) -> bool:
        """Return whether a process is ours by itself, without its ancestors."""
        if pid in self.own:
            return True
        folder = Path(self._proc, str(pid))
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        home = os.fsencode(self.home) + b"/"
        if any(home in word + b"/" for word in words):
            return True
        if any(option == b"-m" and module.startswith(b"hypergauge.") for option, module in itertools.pairwise(words)):
            return True
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            return False
        return any(entry.startswith(_MARKS) for entry in environment.split(b"\0"))


class _Ours:
    """Processes that are ours, by themselves or by an ancestor; each is examined once, and only if it is asked for."""

    def __init__(self, cpu: HostCpu, processes: Mapping[int, _Process]) -> None:
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
