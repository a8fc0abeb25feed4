"""Private files and folders, for this user alone under any umask: everything below ``BENCH_HOME``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

__all__ = ["UMASK", "make_folder", "opened"]

# For services, which write nothing that a user has asked for.
UMASK = 0o077


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing; one that is there stays as it is."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def opened(path: Path, mode: str) -> IO[Any]:
    """Open a file to be written, as `open` does."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))
