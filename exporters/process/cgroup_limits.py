"""Limits of a run: cores by affinity and quota, memory by its control group."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from hypergauge.core.system import control_groups
from hypergauge.core.system.processes import ProcessStat

__all__ = ["CgroupLimits"]

# Limits count only for processes with at least this share of the busiest one's CPU time. A shell that started it, or the
# client of a container, has other limits.
_LEAST_SHARE = 0.1
# Control groups change seldom, and each takes several files.
_SECONDS_BETWEEN = 10.0


class _Limit(NamedTuple):
    group: Path
    amount: float


class _Limits(NamedTuple):
    cores: _Limit | None
    memory: _Limit | None


class CgroupLimits:
    """Limits of one run's processes, as of the last update.

    Attributes
    ----------
    cores
        Available cores; ``None`` before the first process.
    memory_bytes
        Memory limit of the control groups; ``None`` without one.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.cores: float | None = None
        self.memory_bytes: float | None = None
        self._root = root
        self._limits: dict[tuple[int, float], _Limits] = {}
        self._read_at = -float("inf")

    def update(self, living: Sequence[ProcessStat]) -> None:
        """Read the limits of those processes that do the work."""
        most = max((stat.own_seconds for stat in living), default=0.0)
        working = [stat for stat in living if stat.own_seconds >= _LEAST_SHARE * most]
        cores = set().union(*(_affinity(stat.pid) for stat in working))
        if not cores:
            return
        limits = self._read(working)
        quota = _sum_over_groups(limit.cores for limit in limits)
        memory = _sum_over_groups(limit.memory for limit in limits)
        self.cores = len(cores) if quota is None else min(quota, len(cores))
        self.memory_bytes = memory

    def _read(self, working: Iterable[ProcessStat]) -> list[_Limits]:
        now = time.monotonic()
        if now - self._read_at >= _SECONDS_BETWEEN:
            self._limits.clear()
            self._read_at = now
        for stat in working:
            if (key := (stat.pid, stat.created)) not in self._limits:
                self._limits[key] = _Limits(
                    self._tightest(stat.pid, "cpu", control_groups.cores),
                    self._tightest(stat.pid, "memory", control_groups.memory_bytes),
                )
        return [self._limits[stat.pid, stat.created] for stat in working]

    def _tightest(self, pid: int, controller: str, amount: Callable[[Path], float | None]) -> _Limit | None:
        found = (
            _Limit(group, limit)
            for group in control_groups.groups(controller, pid, self._root)
            if (limit := amount(group)) is not None
        )
        return min(found, key=lambda limit: limit.amount, default=None)


def _sum_over_groups(limits: Iterable[_Limit | None]) -> float | None:
    """Return the sum over different groups, ``None`` where one of them has no limit."""
    amounts: dict[Path, float] = {}
    for limit in limits:
        if limit is None:
            return None
        amounts[limit.group] = limit.amount
    return sum(amounts.values()) if amounts else None


def _affinity(pid: int) -> set[int]:
    try:
        return os.sched_getaffinity(pid)
    except OSError:  # the process has just ended
        return set()
