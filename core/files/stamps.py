"""File stamps: they tell that a file has changed."""

from __future__ import annotations

from pathlib import Path

__all__ = ["stamp_of"]


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Return what differs once `path` has been written or replaced, ``None`` while it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
