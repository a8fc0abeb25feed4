"""Append-only file that a script cannot mistake for its own."""

from __future__ import annotations

import errno
import fcntl
import os

__all__ = ["AppendOnlyFile"]

# Least number of the descriptor. Scripts use low numbers, and close them in ranges such as 3 to 256.
_LEAST_NUMBER = 700


class AppendOnlyFile:
    """File that threads and forked processes append to, each time by one write.

    A script may close descriptors that it did not open, as a daemon does. The number is then that of the next file that it
    opens. So each write first compares the file behind the number, and opens the path again if it is another one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        # Number, device and inode; one object, since threads replace it.
        self._descriptor: tuple[int, int, int] | None = None

    def append(self, lines: bytes) -> None:
        """Append lines. On a full disk they are dropped, so that the training continues."""
        try:
            os.write(self._number(), lines)
        except OSError as error:
            if error.errno is None:  # not of the system, but a TimeoutError of the script's signal handler
                raise

    def _number(self) -> int:
        """Return the descriptor's number; open the file if the number is not its own."""
        if self._descriptor is not None:
            number, device, inode = self._descriptor
            try:
                file = os.fstat(number)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
            else:
                if file.st_ino == inode and file.st_dev == device:
                    return number
            # The number may be the script's by now, so it stays open.
        number = _raised(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
        file = os.fstat(number)
        self._descriptor = number, file.st_dev, file.st_ino
        return number


def _raised(number: int) -> int:
    """Return a descriptor of the same file with a high number, as far as the process may have one."""
    try:
        raised = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _LEAST_NUMBER)
    except OSError:  # above RLIMIT_NOFILE
        return number
    os.close(number)
    return raised
