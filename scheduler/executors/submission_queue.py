"""Submission queue: workloads are submitted in order, although threads prepare them in any order."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hypergauge.scheduler.executors.concurrency import Stopping

__all__ = ["SubmissionQueue"]

_LOOK_SECONDS = 0.2


class SubmissionQueue:
    """Workloads stand in it in the order of their file, until each has been handed in, or will not be."""

    def __init__(self, workloads: Sequence[str], stopping: Stopping) -> None:
        self._left = list(workloads)
        self._moved = threading.Condition()
        self._stopping = stopping

    def wait(self, workload: str) -> None:
        """Wait until a workload is the first in it, or no longer in it, or the schedule is to end."""
        with self._moved:
            while (
                workload in self._left[1:] and not self._stopping.asked.is_set() and not self._stopping.failed.is_set()
            ):
                self._moved.wait(_LOOK_SECONDS)

    def leave(self, workload: str) -> None:
        """Let the next one be first; nothing where it has left before."""
        with self._moved:
            if workload in self._left:
                self._left.remove(workload)
                self._moved.notify_all()
