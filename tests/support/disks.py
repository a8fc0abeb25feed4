"""Small disks and full disks."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Yield a folder on a disk of its own with a size in bytes; skip without the right to mount."""
    folder.mkdir(parents=True, mode=0o755)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (subprocess.CalledProcessError, OSError) as error:
        pytest.skip(f"a small disk cannot be mounted here, which needs root: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Fill a disk except for `leave` bytes, and return the file to delete afterwards."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        while True:
            free = os.statvfs(disk)
            try:
                os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - leave, 1))
            except OSError as error:
                if error.errno != errno.ENOSPC:  # ENOSPC: another process has used space since
                    raise
            else:
                return ballast
