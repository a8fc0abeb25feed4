"""Limit of a run's output: the file keeps its beginning and its newest part.

The run appends to one file, and the limit punches a hole into its middle. On file systems without holes (NFS before
4.2) the file keeps the whole output.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from hypergauge.core.output import LeftOut
from hypergauge.core.system.periodic import Periodic

__all__ = ["OutputLimit", "punch_hole"]

_log = logging.getLogger(__name__)

# Seconds between two checks: short for a run that writes fast enough to fill a disk, long for a silent one.
_SHORTEST, _LONGEST = 0.05, 1.0
_BLOCK = 4096
# Longest search for the end of a line, which keeps lines whole.
_LINE_BYTES = 1 << 16
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM})


class OutputLimit:
    """Background limit on the size of one run's output.

    Parameters
    ----------
    output
        File that the run appends to.
    limit
        Bytes of output to keep, besides those written between two checks; 0 for no limit.
    punch
        Function that frees the bytes of a file from a start up to an end, or raises OSError.
    """

    def __init__(self, output: Path, limit: int, punch: Callable[[int, int, int], None] | None = None) -> None:
        self._output, self._limit, self._punch = output, limit, punch or punch_hole
        self._looks = Periodic(f"output of run {output.parent.name[:8]}", self._look, _SHORTEST, longest=_LONGEST)
        self._last = (time.monotonic(), 0)

    def start(self) -> None:
        """Start the checks, if there is a limit."""
        if self._limit:
            self._looks.start()

    def end(self) -> None:
        """Stop the checks after a last one. Call it after the last write."""
        self._looks.end()
        if self._limit:
            self._look()

    def _look(self) -> float:
        """Shorten the output if it exceeds the limit; return the seconds until the next check."""
        if not self._limit:
            return _LONGEST
        now, kept, grown = time.monotonic(), 0, 0
        # The checks survive a full disk: the next one may have room to record the gap.
        with contextlib.suppress(OSError):
            file = os.open(self._output, os.O_RDWR | os.O_CLOEXEC)
            try:
                left = LeftOut.read(self._output)
                written = os.fstat(file).st_size
                if written < left.end:  # the run has truncated the file
                    left = LeftOut()
                    left.write(self._output)
                kept = written - (left.end - left.start)
                if kept > self._limit:
                    self._shorten(file, left)
                    kept = self._limit // 2
                grown = written - self._last[1]
                seconds, self._last = now - self._last[0], (now, written)
            finally:
                os.close(file)
        if grown <= 0:
            return _LONGEST
        return min(_LONGEST, max(_SHORTEST, (self._limit - kept) / 2 / grown * seconds))

    def _shorten(self, file: int, left: LeftOut) -> None:
        found = self._middle(file, left)
        found.write(self._output)
        try:
            self._punch(file, -(-found.start // _BLOCK) * _BLOCK, found.end // _BLOCK * _BLOCK)
        except OSError as error:
            left.write(self._output)
            if error.errno not in _UNSUPPORTED:
                raise
            self._limit = 0
            _log.warning("%s: its file system punches no holes; the output is kept whole", self._output)

    def _middle(self, file: int, left: LeftOut) -> LeftOut:
        """Return the new gap: everything between the first 1/4 and the last 3/8 of the limit, at line ends."""
        start = left.start
        if not left.end:
            start = self._limit // 4
            lines = max(0, start - _LINE_BYTES)
            start = lines + os.pread(file, start - lines, lines).rfind(b"\n") + 1 or start
        end = os.fstat(file).st_size - self._limit * 3 // 8
        end += os.pread(file, _LINE_BYTES, end).find(b"\n") + 1
        return LeftOut(start, end)


def punch_hole(file: int, start: int, end: int) -> None:
    """Free the space of a file's bytes from `start` up to `end`; keep the file's size.

    Raises
    ------
    OSError
        The file system does not support holes, or another error occurred.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    length = ctypes.c_int64(end - start)
    if libc.fallocate(file, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(start), length) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
