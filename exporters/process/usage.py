"""Resource usage of one run: totals that never fall, although its processes come and go.

A process that ends takes its counters with it. The kernel adds them to those of the process that waits for it, so a
total counts each process with the children it waited for, and keeps the last figures of a process for which nobody is
left who could have.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

from hypergauge.core.system.processes import ProcessStat, RunTree, read_stat
from hypergauge.exporters.process.cgroup_limits import CgroupLimits

__all__ = ["RunUsage"]

# For a proportional size the kernel walks through every page of a process: some 8 ms a GiB, while it holds a lock that
# the process may want. So they are read as often as it takes this share of one core, every second for 64 MiB and every
# few minutes for 10 GiB, and follow the resident size meanwhile, which costs nothing.
_PROPORTIONAL_SHARE = 0.0005
# The same for when processes come or go, since they may share with others.
_PROPORTIONAL_SHARE_OF_CHANGES = 0.005


@dataclass(frozen=True, slots=True)
class _Figures:
    """Usage of one process when it was last read; storage is ``None`` where it may not be read."""

    parent: int
    created: float
    cpu_seconds: float
    storage: tuple[int, int] | None
    supervisor: bool = False


class RunUsage:
    """The figures of one run as of the last update.

    Attributes
    ----------
    cpu_seconds
        User and system time of the run's processes, ended ones included.
    read_bytes, written_bytes
        What they had read from and written to storage, as far as it could be read; `storage_known` says whether that is
        all of it now.
    resident_bytes, proportional_bytes
        Sums over the processes that live; ``None`` where a process does not let us read it. The proportional size is
        the last that was read of each process and what its resident size has grown or shrunk by since.
    peak_bytes
        The largest of the proportional sums, ``None`` before there is one.
    threads, processes
        How many live; zombies do not.
    allowance
        What they may have at most.
    seen_at
        Unix time of the last update.
    """

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        self.read_bytes = self.written_bytes = 0
        self.storage_known = False
        self.resident_bytes = self.threads = self.processes = 0
        self.proportional_bytes: int | None = None
        self.peak_bytes: int | None = None
        self.limits = CgroupLimits()
        self.seen_at = 0.0
        self._last: dict[int, _Figures] = {}
        self._proportional = _Proportional()
        self._gone_cpu = 0.0
        self._gone_read = self._gone_written = 0

    def update(self, tree: RunTree, now: float) -> bool:
        """Read the processes of `tree` (at `now`, Unix seconds); return whether any of the run's own lives."""
        self.seen_at = now
        current: dict[int, _Figures] = {}
        living: list[ProcessStat] = []
        # Parents come first: a child that is waited for meanwhile is missed until the next time, and not counted twice.
        if tree.supervisor is not None and (stat := _reread(tree.supervisor)):
            # Its own work is not the run's; the orphans that it waited for are.
            current[stat.pid] = _Figures(stat.parent, stat.created, stat.reaped_seconds, (0, 0), supervisor=True)
        for member in tree.members:
            if (stat := _reread(member)) is None:
                continue
            storage: tuple[int, int] | None = self._last_storage(stat)  # only root may read a zombie's
            if not stat.zombie:
                try:
                    storage = _storage(stat)
                    living.append(stat)
                except psutil.ZombieProcess:
                    pass  # since a moment ago
                except psutil.NoSuchProcess:
                    continue  # what was last seen of it decides
            cpu_seconds = stat.own_seconds + stat.reaped_seconds
            current[stat.pid] = _Figures(stat.parent, stat.created, cpu_seconds, storage)
        self._keep_what_is_lost(current)
        self._total(current)
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

    def _keep_what_is_lost(self, current: dict[int, _Figures]) -> None:
        for pid, figures in self._last.items():
            if _is_there(pid, figures, current):
                continue
            heir = self._heir(figures, current)
            if heir is None:
                self._gone_cpu += figures.cpu_seconds
            if (heir is None or heir.supervisor) and figures.storage is not None:
                self._gone_read += figures.storage[0]
                self._gone_written += figures.storage[1]
        self._last = current

    def _heir(self, figures: _Figures, current: dict[int, _Figures]) -> _Figures | None:
        """Return the nearest ancestor that is still there: it, or one below it that is gone too, may have waited."""
        pid = figures.parent
        while (ancestor := self._last.get(pid)) is not None:
            if _is_there(pid, ancestor, current):
                return ancestor
            pid = ancestor.parent
        return None

    def _total(self, current: dict[int, _Figures]) -> None:
        cpu_seconds = sum(figures.cpu_seconds for figures in current.values())
        self.cpu_seconds = max(self.cpu_seconds, self._gone_cpu + cpu_seconds)
        storages = [figures.storage for figures in current.values()]
        known = [storage for storage in storages if storage is not None]
        self.storage_known = len(known) == len(storages)
        self.read_bytes = max(self.read_bytes, self._gone_read + sum(read for read, _ in known))
        self.written_bytes = max(self.written_bytes, self._gone_written + sum(written for _, written in known))


def _reread(process: ProcessStat) -> ProcessStat | None:
    stat = read_stat(process.pid)
    return stat if stat is not None and stat.created == process.created else None


def _is_there(pid: int, figures: _Figures, current: dict[int, _Figures]) -> bool:
    return pid in current and current[pid].created == figures.created


def _storage(stat: ProcessStat) -> tuple[int, int] | None:
    """Return bytes read and written, ``None`` where we may not know them."""
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
    """Proportional set sizes of a run's processes, read now and then and estimated between."""

    def __init__(self) -> None:
        # By process: its proportional size when that was read, less its resident size then.
        self._shared: dict[tuple[int, float], int | None] = {}
        self._read_at, self._cost = -float("inf"), 0.0

    def total(self, living: list[ProcessStat]) -> int | None:
        """Return the sum over processes in bytes, ``None`` where there is none or one does not let us know it."""
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
    """Return a process's proportional set size less its resident one, ``None`` where we may not know it."""
    try:
        size: int = psutil.Process(stat.pid).memory_full_info().pss
    except (psutil.Error, AttributeError):  # gone, not ours to read, or a kernel without smaps
        return None
    return size - stat.resident_bytes
