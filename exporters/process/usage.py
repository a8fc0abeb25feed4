"""Resource usage of one run: totals that never fall, although processes start and end.

The counters of an ended process vanish. The kernel adds them to those of the process that waits for it. A total therefore
counts each process with the children it waited for. It keeps the last values of a process without a living ancestor.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

from hypergauge.core.system.processes import ProcessStat, RunTree, read_stat
from hypergauge.exporters.process.cgroup_limits import CgroupLimits

__all__ = ["RunUsage"]

# For a proportional size the kernel visits every page of a process, some 8 ms per GiB, while it holds a lock that the
# process may need. Reading them takes at most this share of one core: every second for 64 MiB, every few minutes for
# 10 GiB. In between the estimate follows the resident size, which is cheap.
_PROPORTIONAL_SHARE = 0.0005
# The same after processes have started or ended, since they may share pages with others.
_PROPORTIONAL_SHARE_OF_CHANGES = 0.005


@dataclass(frozen=True, slots=True)
class _ProcessUsage:
    """Usage of one process at its last read; storage is ``None`` where it is not readable."""

    parent: int
    created: float
    cpu_seconds: float
    storage: tuple[int, int] | None
    supervisor: bool = False


class RunUsage:
    """Resource usage of one run as of the last update.

    Parameters
    ----------
    cpu_alone
        Whether to read the CPU time alone, which costs far less. The others are then 0 or ``None``.

    Attributes
    ----------
    cpu_seconds
        User and system time of the run's processes, ended ones included.
    read_bytes, written_bytes
        Bytes read from and written to storage, as far as readable; `storage_known` is whether that is all of it now.
    resident_bytes, proportional_bytes
        Sums over living processes; ``None`` where the size of one is not readable. The proportional size is each process's
        last read one, plus the change of its resident size since.
    peak_bytes
        The largest of the proportional sums, ``None`` before the first.
    threads, processes
        Living ones, without zombies.
    limits
        Available cores and memory.
    seen_at
        Unix time of the last update.
    """

    def __init__(self, *, cpu_alone: bool = False) -> None:
        self._cpu_alone = cpu_alone
        self.cpu_seconds = 0.0
        self.read_bytes = self.written_bytes = 0
        self.storage_known = False
        self.resident_bytes = self.threads = self.processes = 0
        self.proportional_bytes: int | None = None
        self.peak_bytes: int | None = None
        self.limits = CgroupLimits()
        self.seen_at = 0.0
        self._last: dict[int, _ProcessUsage] = {}
        self._proportional = _Proportional()
        self._ended_cpu = 0.0
        self._ended_read = self._ended_written = 0

    def update(self, tree: RunTree, now: float) -> bool:
        """Read the processes of `tree` (at `now`, Unix seconds); return whether any of the run's own lives."""
        self.seen_at = now
        current: dict[int, _ProcessUsage] = {}
        living: list[ProcessStat] = []
        # Parents first: a child reaped meanwhile is missed until the next update, instead of counted twice.
        if tree.supervisor is not None and (stat := _reread(tree.supervisor)):
            # Its own work does not belong to the run; the orphans that it waited for do.
            current[stat.pid] = _ProcessUsage(stat.parent, stat.created, stat.reaped_seconds, (0, 0), supervisor=True)
        for member in tree.members:
            if (stat := _reread(member)) is None:
                continue
            storage: tuple[int, int] | None = self._last_storage(stat)  # only root may read a zombie's
            if not stat.zombie:
                try:
                    storage = (0, 0) if self._cpu_alone else _storage(stat)
                    living.append(stat)
                except psutil.ZombieProcess:
                    pass  # since this scan
                except psutil.NoSuchProcess:
                    continue  # its last values count
            cpu_seconds = stat.own_seconds + stat.reaped_seconds
            current[stat.pid] = _ProcessUsage(stat.parent, stat.created, cpu_seconds, storage)
        self._add_ended(current)
        self._total(current)
        if not self._cpu_alone:
            self._measure(living)
        return bool(living)

    def _measure(self, living: list[ProcessStat]) -> None:
        self.processes = len(living)
        self.threads = sum(stat.threads for stat in living)
        self.resident_bytes = sum(stat.resident_bytes for stat in living)
        self.proportional_bytes = self._proportional.total(living)
        if self.proportional_bytes is not None:
            self.peak_bytes = max(self.proportional_bytes, self.peak_bytes or 0)
        self.limits.update(living)

    def _last_storage(self, stat: ProcessStat) -> tuple[int, int]:
        last = self._last.get(stat.pid)
        return (last.storage if last is not None and last.created == stat.created else None) or (0, 0)

    def _add_ended(self, current: dict[int, _ProcessUsage]) -> None:
        for pid, usage in self._last.items():
            if _lives(pid, usage, current):
                continue
            reaper = self._reaper(usage, current)
            if reaper is None:
                self._ended_cpu += usage.cpu_seconds
            if (reaper is None or reaper.supervisor) and usage.storage is not None:
                self._ended_read += usage.storage[0]
                self._ended_written += usage.storage[1]
        self._last = current

    def _reaper(self, usage: _ProcessUsage, current: dict[int, _ProcessUsage]) -> _ProcessUsage | None:
        """Return the nearest living ancestor: it, or an ended one below it, may have waited for the process."""
        pid = usage.parent
        while (ancestor := self._last.get(pid)) is not None:
            if _lives(pid, ancestor, current):
                return ancestor
            pid = ancestor.parent
        return None

    def _total(self, current: dict[int, _ProcessUsage]) -> None:
        cpu_seconds = sum(usage.cpu_seconds for usage in current.values())
        self.cpu_seconds = max(self.cpu_seconds, self._ended_cpu + cpu_seconds)
        storages = [usage.storage for usage in current.values()]
        known = [storage for storage in storages if storage is not None]
        self.storage_known = len(known) == len(storages)
        self.read_bytes = max(self.read_bytes, self._ended_read + sum(read for read, _ in known))
        self.written_bytes = max(self.written_bytes, self._ended_written + sum(written for _, written in known))


def _reread(process: ProcessStat) -> ProcessStat | None:
    stat = read_stat(process.pid)
    return stat if stat is not None and stat.created == process.created else None


def _lives(pid: int, usage: _ProcessUsage, current: dict[int, _ProcessUsage]) -> bool:
    return pid in current and current[pid].created == usage.created


def _storage(stat: ProcessStat) -> tuple[int, int] | None:
    """Return bytes read and written, ``None`` where they are not readable."""
    try:
        with open(f"/proc/{stat.pid}/io", "rb", buffering=0) as file:  # noqa: PTH123 - the cheapest way, every second
            lines = dict(line.split(b": ", 1) for line in file.read(4096).splitlines())
    except (FileNotFoundError, ProcessLookupError) as error:
        raise psutil.NoSuchProcess(stat.pid) from error
    except PermissionError:
        now = _reread(stat)
        if now is not None and now.zombie:  # only root may read a zombie's
            raise psutil.ZombieProcess(stat.pid) from None
        return None
    return int(lines[b"read_bytes"]), int(lines[b"write_bytes"])


class _Proportional:
    """Proportional set sizes of a run's processes, read at intervals and estimated in between."""

    def __init__(self) -> None:
        # By process: proportional less resident size at the last read.
        self._shared: dict[tuple[int, float], int | None] = {}
        self._read_at, self._cost = -float("inf"), 0.0

    def total(self, living: list[ProcessStat]) -> int | None:
        """Return the sum over processes in bytes, ``None`` without processes or where one is not readable."""
        now = time.monotonic()
        present = {(stat.pid, stat.created) for stat in living}
        share = _PROPORTIONAL_SHARE if present == self._shared.keys() else _PROPORTIONAL_SHARE_OF_CHANGES
        again = now - self._read_at >= self._cost / share
        began = time.thread_time()
        self._shared = {
            (stat.pid, stat.created): _shared(stat) if again or key not in self._shared else self._shared[key]
            for stat in living
            for key in [(stat.pid, stat.created)]
        }
        if again:
            self._read_at, self._cost = now, time.thread_time() - began
        sizes = [
            min(max(stat.resident_bytes + shared, 0), stat.resident_bytes)
            for stat in living
            if (shared := self._shared[stat.pid, stat.created]) is not None
        ]
        return sum(sizes) if living and len(sizes) == len(living) else None


def _shared(stat: ProcessStat) -> int | None:
    """Return a process's proportional less its resident set size, ``None`` where it is not readable."""
    try:
        size: int = psutil.Process(stat.pid).memory_full_info().pss
    except (psutil.Error, AttributeError):  # ended, not readable, or a kernel without smaps
        return None
    return size - stat.resident_bytes
