"""Limit of a run's output: the beginning and the newest part stay.

The run need not know: it goes on appending to the same file. Where the file system can punch holes, the middle just
becomes one. Where it cannot (NFS before 4.2), the newest part is moved forward and the file cut, while the run is held
still: else what it writes between the last look and the cut would be lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from hypergauge.core.output import LeftOut
from hypergauge.core.system.periodic import Periodic
from hypergauge.scheduler.supervisor.pausing import paused

__all__ = ["OutputLimit", "punch_hole"]

# Seconds between two looks: one fast enough to fill a disk is looked at more often, one that is silent hardly costs.
_SHORTEST, _LONGEST = 0.05, 1.0
_BLOCK = 4096
# How far the end of a line is looked for, so that lines stay whole.
_LINE_BYTES = 1 << 16
_COPY_BYTES = 1 << 22
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_CANNOT = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM})


class OutputLimit:
    """Watches the size of one run's output, in the background.

    Parameters
    ----------
    run_id
        Whose processes are held still where that is needed.
    output
        The file that they append to.
    limit
        How many bytes of it are kept, and what is written between two looks; 0 for all.
    punch
        Gives the space of a file's bytes from one up to another back, or raises an OSError.
    """

    def __init__(
        self, run_id: str, output: Path, limit: int, punch: Callable[[int, int, int], None] | None = None
    ) -> None:
        self._run_id, self._output, self._limit = run_id, output, limit
        self._punch: Callable[[int, int, int], None] | None = punch or punch_hole
        self._looks = Periodic(f"output of run {run_id[:8]}", self._look, _SHORTEST, longest=_LONGEST)
        self._last = (time.monotonic(), 0)

    def start(self) -> None:
        """Look again and again from now on."""
        if self._limit:
            self._looks.start()

    def end(self) -> None:
        """Look a last time, when nothing is written any more."""
        self._looks.end()
        if self._limit:
            self._look()

    def _look(self) -> float:
        """Take away what is too much; return the seconds until it is worth looking again."""
        now, kept, grown = time.monotonic(), 0, 0
        # A full disk is no reason to end: later there may be room to write down what is to be taken away.
        with contextlib.suppress(OSError):
            file = os.open(self._output, os.O_RDWR | os.O_CLOEXEC)
            try:
                left = LeftOut.read(self._output)
                written = os.fstat(file).st_size + left.moved
                if written < left.end:  # the run itself has emptied the file
                    left, written = LeftOut(), written - left.moved
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
        if self._punch is not None and not left.moved:
            found = self._middle(file, left)
            found.write(self._output)
            try:
                self._punch(file, -(-found.start // _BLOCK) * _BLOCK, found.end // _BLOCK * _BLOCK)
                return
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                self._punch = None
        with paused(self._run_id) as still:
            if still:
                self._move(file, self._middle(file, left))

    def _middle(self, file: int, left: LeftOut) -> LeftOut:
        """Return what is to be missing: all but a quarter of the limit at the beginning and 3/8 of it at the end.

        So what is missing anew is longer than the newest part, which can be copied into its place.
        """
        start = left.start
        if not left.end:
            start = self._limit // 4
            lines = max(0, start - _LINE_BYTES)
            start = lines + os.pread(file, start - lines, lines).rfind(b"\n") + 1 or start
        place = os.fstat(file).st_size - self._limit * 3 // 8
        place += os.pread(file, _LINE_BYTES, place).find(b"\n") + 1
        return LeftOut(start, place + left.moved, left.moved)

    def _move(self, file: int, left: LeftOut) -> None:
        """Put what follows the missing part into its place, so that at every moment either of both can be read."""
        left.write(self._output)
        source, target = left.end - left.moved, left.start
        while chunk := os.pread(file, _COPY_BYTES, source):
            done = os.pwrite(file, chunk, target)
            source, target = source + done, target + done
        moved = LeftOut(left.start, left.end, left.end - left.start, cut=(source, target))
        moved.write(self._output)
        os.ftruncate(file, target)
        LeftOut(left.start, left.end, moved.moved).write(self._output)


def punch_hole(file: int, start: int, end: int) -> None:
    """Give the space of a file's bytes from `start` up to `end` back; its size stays.

    Raises
    ------
    OSError
        The file system cannot do so.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    length = ctypes.c_int64(end - start)
    if libc.fallocate(file, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(start), length) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
