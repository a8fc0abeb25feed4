"""Limits of control groups, in the kernel's interface of version 1 and 2.

A group limits its descendants, so the tightest limit on the path to the root applies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

__all__ = ["cores", "groups", "memory_bytes"]

# Version 1 writes "no limit" as a number beyond the memory of any host.
_UNLIMITED = 1 << 60


def groups(controller: str, process: int | str = "self", root: Path = Path("/")) -> Iterator[Path]:
    """Yield the folders of a process's control group and of its parents, the innermost first; tests replace `root`."""
    for line in _text(root / f"proc/{process}/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number == "0":
            mount = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controller
        else:
            continue
        # In a container, the name may be the outer one, while the folder here is the group's own.
        parts = [part for part in name.split("/") if part not in ("", "..")]
        folders = (mount.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))
        yield from (folder for folder in folders if folder.is_dir())


def memory_bytes(group: Path) -> int | None:
    """Return a group's memory limit in bytes, ``None`` if it has none."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        with contextlib.suppress(ValueError):
            limit = int(_text(group / name))
            return limit if limit < _UNLIMITED else None
    return None


def cores(group: Path) -> float | None:
    """Return a group's limit of CPU time in cores, ``None`` if it has none."""
    quota, _, period = _text(group / "cpu.max").partition(" ")
    if not period:
        quota, period = _text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")
    with contextlib.suppress(ValueError, ZeroDivisionError):
        limit = int(quota) / int(period)
        return limit if limit > 0 else None
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
