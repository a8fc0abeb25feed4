"""File stamps, for the detection of changed files."""

from __future__ import annotations

from pathlib import Path

__all__ = ["stamp_of"]


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Return a stamp that changes when `path` is written or replaced, ``None`` if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
