"""Reference-counted resource of several processes: the first creates it, the last ends it.

Each process holds a shared lock on a file. The kernel drops locks with their processes, so neither a crash nor a
``kill -9`` leaves a wrong count.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from hypergauge.core.files import private
from hypergauge.core.files.file_lock import FileLock, try_lock

__all__ = ["SharedResource"]


class SharedResource:
    """Reference count of a resource.

    Parameters
    ----------
    folder
        Folder of the two lock files.

    Attributes
    ----------
    shared
        Whether other processes held the resource when this object joined.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: int | None = None
        self.shared = False

    @property
    def joined(self) -> bool:
        """Return whether this object holds the resource."""
        return self._held is not None

    def join(self, ensure: Callable[[], None]) -> None:
        """Hold the resource; `ensure` creates missing parts, while no other process joins or leaves.

        Safe to call twice.
        """
        if self._held is not None:
            return
        private.make_folder(self._folder)
        with self._gate():
            descriptor = os.open(self._folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self.shared = not try_lock(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                ensure()
            except BaseException:
                os.close(descriptor)
                raise
            self._held = descriptor

    def exclusively(self, call: Callable[[], None]) -> None:
        """Call a function while no process joins or leaves, such as a repair of the resource."""
        private.make_folder(self._folder)
        with self._gate():
            call()

    def leave(self, last: Callable[[], None]) -> None:
        """Release the resource; the last process calls `last`, while no other joins or leaves. Safe to call twice."""
        if self._held is None:
            return
        with self._gate():
            descriptor, self._held = self._held, None
            try:
                # The gate keeps others from joining in between.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                if try_lock(descriptor):
                    last()
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep other processes from joining; yield whether no process holds the resource."""
        private.make_folder(self._folder)
        others = FileLock(self._folder / "users.lock")
        with self._gate():
            try:
                yield others.take(0)
            finally:
                others.release()

    def _gate(self) -> FileLock:
        """Return the lock under which processes join and leave."""
        return FileLock(self._folder / "gate.lock")
