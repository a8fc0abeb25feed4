"""Reader of files in ``/proc`` and ``/sys``."""

from __future__ import annotations

from pathlib import Path

__all__ = ["read_file"]


def read_file(path: Path) -> str:
    """Return a file's text without surrounding white space; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
