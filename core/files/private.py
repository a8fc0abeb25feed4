"""Private files and folders, for this user alone under any umask: everything below ``BENCH_HOME``."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import IO, Any

__all__ = ["UMASK", "make_folder", "make_numbered_folder", "opened"]

# For services: other users cannot access their files.
UMASK = 0o077


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents; leave an existing one unchanged."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def opened(path: Path, mode: str) -> IO[Any]:
    """Open a file for writing, as `open` does."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))


def make_numbered_folder(parent: Path, name: str) -> Path:
    """Make the folder `name` in `parent`, or the first of ``name-2``, ``name-3`` … that is missing; return it.

    Two hosts with a shared disk get separate folders, even at the same time.
    """
    make_folder(parent)
    for number in itertools.count(1):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder
    raise AssertionError
