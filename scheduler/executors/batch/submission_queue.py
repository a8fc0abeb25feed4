"""Submission queue: keeps the file's order of workloads, although threads prepare them in any order."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hypergauge.scheduler.executors.base import Stopping

__all__ = ["SubmissionQueue"]

_POLL_SECONDS = 0.2


class SubmissionQueue:
    """Queue of workloads in the order of their file. A workload leaves it on submission, or without one."""

    def __init__(self, workloads: Sequence[str], stopping: Stopping) -> None:
        self._waiting = list(workloads)
        self._changed = threading.Condition()
        self._stopping = stopping

    def wait(self, workload: str) -> None:
        """Wait until a workload is first in the queue or has left it, or the schedule ends."""
        with self._changed:
            while workload in self._waiting[1:] and not self._is_ending():
                self._changed.wait(_POLL_SECONDS)

    def leave(self, workload: str) -> None:
        """Take a workload out of the queue, if it is there."""
        with self._changed:
            if workload in self._waiting:
                self._waiting.remove(workload)
                self._changed.notify_all()

    def _is_ending(self) -> bool:
        return self._stopping.asked.is_set() or self._stopping.failed.is_set()
