"""Memory limit of a run and its out-of-memory kills, from the kernel's files.

The limit is the tightest limit of the control groups, else the host's memory. The kill counter is that of the innermost
group that has one; in version 2 it includes the groups below. Without a group it is the host's counter, which includes
every killed process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hypergauge.core.system import control_groups

__all__ = ["Memory", "own_peak"]


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory limit and out-of-memory kills of this process and its children.

    Attributes
    ----------
    limit_bytes
        Memory limit; ``None`` if unknown.
    origin
        Origin of the limit: the memory of the ``host``, or a control group (``cgroup``).
    oom_kills
        Number of processes that the kernel has killed for lack of memory since the start of the host or the group;
        ``None`` if the kernel does not count them.
    """

    limit_bytes: int | None = None
    origin: Literal["host", "cgroup"] = "host"
    oom_kills: int | None = None

    @classmethod
    def read(cls, root: Path = Path("/")) -> Memory:
        """Read the limit and the kills for the calling process; `root` contains ``proc`` and ``sys``."""
        total = _number(root / "proc/meminfo", "MemTotal:")
        host = None if total is None else total * 1024
        groups = list(control_groups.groups("memory", root=root))
        limits = [limit for group in groups if (limit := control_groups.memory_bytes(group)) is not None]
        limit = min(limits, default=None)
        kills = (count for group in groups if (count := _group_kills(group)) is not None)
        killed = next(kills, None)
        if killed is None:
            killed = _number(root / "proc/vmstat", "oom_kill")
        if limit is not None and (host is None or limit < host):
            return cls(limit, "cgroup", killed)
        return cls(host, "host", killed)

    def killed_since(self, before: Memory) -> int:
        """Return the number of out-of-memory kills since `before`; 0 if unknown."""
        if self.oom_kills is None or before.oom_kills is None:
            return 0
        return max(0, self.oom_kills - before.oom_kills)


def own_peak() -> int:
    """Return this process's peak memory in KiB; 0 if unknown. `getrusage` has its parent's where that was larger."""
    return _number(Path("/proc/self/status"), "VmHWM:") or 0


def _group_kills(group: Path) -> int | None:
    for name in ("memory.events", "memory.oom_control"):
        if (count := _number(group / name, "oom_kill")) is not None:
            return count
    return None


def _number(path: Path, key: str) -> int | None:
    """Return the number after `key` at the beginning of a line; ``None`` if there is none."""
    found = re.search(rf"^{key}\s+([0-9]+)\b", _text(path), re.MULTILINE)
    return int(found[1]) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
