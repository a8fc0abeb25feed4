"""Reader of files and folders in ``/proc`` and ``/sys``."""

from __future__ import annotations

from pathlib import Path

__all__ = ["list_folder", "read_file"]


def read_file(path: Path) -> str:
    """Return a file's text without surrounding white space; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def list_folder(path: Path) -> list[str]:
    """Return the names in a folder in their order; none where it cannot be read."""
    try:
        return sorted(entry.name for entry in path.iterdir())
    except OSError:
        return []
