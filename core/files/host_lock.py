"""Lock on a resource of this host, such as a GPU to divide or a MIG instance, for all users of the host.

A lock is a name in the kernel's namespace of abstract sockets (unix(7)). No file is left behind, and other users need
no permission for one. The kernel releases it with the last process that has it open, ``kill -9`` included.
"""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Self

__all__ = ["HostLock"]

_POLL_SECONDS = 0.05


class HostLock:
    """Exclusive lock on `name`, not yet taken.

    Parameters
    ----------
    name
        At most 90 bytes.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket: socket.socket | None = None

    def take(self, seconds: float = 0.0) -> bool:
        """Take the lock; return whether it was free within `seconds`."""
        deadline = time.monotonic() + seconds
        while self._socket is None:
            taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                taken.bind(f"\0hypergauge/{self.name}")
            except OSError:
                taken.close()
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL_SECONDS)
            else:
                self._socket = taken
        return True

    def fileno(self) -> int:
        """Return the descriptor, for child processes that share the lock."""
        assert self._socket is not None
        return self._socket.fileno()

    def release(self) -> None:
        """Release the lock in this process; safe to call twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
