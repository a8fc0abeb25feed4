"""Exclusive lock on a file, by flock(2).

The kernel releases the lock with the last process that has the file open, ``kill -9`` included. A child process that
inherits the descriptor shares the lock. The file is never deleted, so that no process locks a file without a name.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["FileLock", "try_lock"]

_POLL_SECONDS = 0.1


class FileLock:
    """Exclusive lock on the file `path`, which is created if it is missing; not yet taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def take(self, seconds: float | None = None) -> bool:
        """Take the lock; return whether it was free within `seconds`. Without a limit, wait."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            taken = _lock_within(descriptor, seconds)
        except BaseException:
            os.close(descriptor)
            raise
        if taken:
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return taken

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def fileno(self) -> int:
        """Return the descriptor, for child processes that share the lock."""
        assert self._descriptor is not None
        return self._descriptor

    def release(self) -> None:
        """Release the lock in this process; safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def try_lock(descriptor: int) -> bool:
    """Lock an open file, exclusively; return whether the lock was free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_within(descriptor: int, seconds: float | None) -> bool:
    if seconds is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
