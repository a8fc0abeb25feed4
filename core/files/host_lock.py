"""Lock on a resource of this host, such as a GPU to divide or a MIG instance, for all users of the host.

A claim is a name in the kernel's namespace of abstract sockets (unix(7)): there is no file that could be left behind or
that another user could not open, and it goes with the last process that has it open, ``kill -9`` included.
"""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Self

__all__ = ["HostLock"]

_POLL_SECONDS = 0.05


class HostLock:
    """A claim on what `name` says; not yet made.

    Parameters
    ----------
    name
        At most 90 bytes.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket: socket.socket | None = None

    def take(self, patience: float = 0.0) -> bool:
        """Make the claim; return whether it could be had within `patience` (seconds)."""
        deadline = time.monotonic() + patience
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
        """Return the descriptor with which a child process shares the claim."""
        assert self._socket is not None
        return self._socket.fileno()

    def release(self) -> None:
        """Give it up, as far as this process goes; safe to call twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
