"""Vendor tool that prints lines at the pace of the scrapes: started at the first one, ended with the exporter."""

from __future__ import annotations

import threading
import time

from hypergauge.exporters.serving.child import Child
from hypergauge.exporters.serving.pace import Pace

__all__ = ["Tool"]

_FRESH_SECONDS = 5.0  # an older line is stale
_FIRST_SECONDS = 3.0  # wait for the first line: an interval of 1 s, and the tool's start


class Tool:
    """Running command, and the last line that it printed.

    Parameters
    ----------
    command
        Command line, to which the milliseconds between two lines are added.
    pause
        Seconds between the command's end and the next start.
    """

    def __init__(self, *command: str, pause: float = 5.0) -> None:
        self._command, self._pause = command, pause
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._pace, self._seconds = Pace(), 0.0

    def line(self) -> str:
        """Return the last line. Start the tool if it does not run or is too slow, and wait for its first line.

        Raises
        ------
        ChildProcessError
            The tool has ended; a later call starts it again.
        TimeoutError
            The tool runs and prints nothing.
        """
        with self._lock:
            child = self._child
            seconds = self._pace.scraped()
            if child is not None and child.line is not None and child.failure is None and seconds != self._seconds:
                child.close()
                child = None
            if child is None or (child.failure is not None and time.monotonic() - child.ended_at >= self._pause):
                child = self._child = Child([*self._command, str(round(seconds * 1000))])
                self._seconds = seconds
        with child.changed:
            left = child.started_at + _FIRST_SECONDS - time.monotonic()
            child.changed.wait_for(lambda: child.line is not None or child.failure is not None, timeout=max(left, 0))
            if child.failure is not None:
                raise ChildProcessError(f"{child.name} {child.failure}")
            silent = time.monotonic() - (child.line_at if child.line is not None else child.started_at)
            if child.line is None or silent > _FRESH_SECONDS:
                raise TimeoutError(f"{child.name} has printed nothing for {silent:.0f} s")
            return child.line

    def close(self) -> None:
        """End the tool; before a start and a second time this has no effect."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.close()
