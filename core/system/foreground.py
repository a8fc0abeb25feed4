"""Standard input of this command, for a run in its foreground."""

from __future__ import annotations

import array
import fcntl
import os
import stat
import sys
import termios
from pathlib import Path

__all__ = ["Foreground"]


class Foreground:
    """Standard input that this command passes on to a number of runs, one after the other.

    A terminal is passed on only from its foreground: in the background, a run of another session would take what the
    user types for the shell.

    Attributes
    ----------
    descriptor
        Its descriptor; ``None`` if it is closed, or the terminal of another command.
    """

    def __init__(self, descriptor: int | None, runs: int = 1) -> None:
        self.descriptor, self._left = descriptor, runs
        self._file = descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._begin = os.lseek(descriptor, 0, os.SEEK_CUR) if descriptor is not None and self._file else 0

    @classmethod
    def of_this_command(cls, runs: int = 1) -> Foreground:
        """Return the standard input of this process."""
        if sys.stdin is None or (os.isatty(0) and not _in_foreground(0)):
            return cls(None)
        return cls(0, runs)

    @property
    def is_read_once(self) -> bool:
        """Return whether it is a pipe with data, which only the first run can read."""
        if self.descriptor is None or self._file or os.isatty(self.descriptor):
            return False
        waiting = array.array("i", [0])
        try:
            fcntl.ioctl(self.descriptor, termios.FIONREAD, waiting)
        except OSError:  # such as /dev/null
            return False
        return waiting[0] > 0

    @property
    def source(self) -> str | None:
        """Return the path of a file or ``a pipe``, for the record of a run; ``None`` without data or for a terminal."""
        if self._file:
            return str(Path(f"/proc/self/fd/{self.descriptor}").readlink())
        return "a pipe" if self.is_read_once else None

    def rewind(self) -> None:
        """Let the next run read a file from the same position as the first."""
        if self.descriptor is not None and self._file:
            os.lseek(self.descriptor, self._begin, os.SEEK_SET)

    def handed_over(self) -> None:
        """Note that a run has it; after the last run, close it here, so that a pipe's writer notices when the run does."""
        self._left -= 1
        if self._left == 0 and self.descriptor is not None and not os.isatty(self.descriptor):
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, self.descriptor)
            os.close(null)
            self.descriptor = None


def _in_foreground(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it is not the terminal of this session, so no shell reads it
        return True
