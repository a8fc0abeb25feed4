"""Reference-counted resource of several processes: the first makes it, the last ends it.

Each holds a shared lock on a file. Locks go with their processes, so neither a crash nor a ``kill -9`` leaves a wrong
count.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from hypergauge.core.files import private

__all__ = ["SharedResource"]


class SharedResource:
    """The processes that hold what `folder` is about.

    Parameters
    ----------
    folder
        Where the two lock files lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: int | None = None
        self.shared = False  # whether there were other holders when this object became one

    @property
    def joined(self) -> bool:
        """Return whether this object is one of the holders."""
        return self._held is not None

    def join(self, ensure: Callable[[], None]) -> None:
        """Become a holder; `ensure` makes what is missing, while nobody else comes or goes. Again does nothing."""
        if self._held is not None:
            return
        private.make_folder(self._folder)
        with self._gate():
            descriptor = os.open(self._folder / "holders.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self.shared = not _alone(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                ensure()
            except BaseException:
                os.close(descriptor)
                raise
            self._held = descriptor

    def exclusively(self, call: Callable[[], None]) -> None:
        """Call something while nobody comes or goes, such as what makes again what is missing."""
        private.make_folder(self._folder)
        with self._gate():
            call()

    def leave(self, last: Callable[[], None]) -> None:
        """Be a holder no more; the last one calls `last`, while nobody else comes or goes. Again does nothing."""
        if self._held is None:
            return
        with self._gate():
            descriptor, self._held = self._held, None
            try:
                # The gate keeps others from joining between our leaving and our looking.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            else:
                last()
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep others from joining; the answer says whether there are no holders now."""
        private.make_folder(self._folder)
        with self._gate(), private.opened(self._folder / "holders.lock", "w") as holders:
            try:
                fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    @contextlib.contextmanager
    def _gate(self) -> Iterator[None]:
        with private.opened(self._folder / "gate.lock", "w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            yield


def _alone(descriptor: int) -> bool:
    """Return whether nobody else has a lock on a file; to be asked where nobody comes or goes."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
