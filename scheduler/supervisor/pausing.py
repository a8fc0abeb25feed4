"""Pause of a run's processes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import psutil

from hypergauge.core.system.processes import ProcessStat, RunProcesses, RunTree, is_alive

__all__ = ["paused"]

_POLL_SECONDS = 0.002
# A process that does not stop by then hangs in the kernel.
_PATIENCE_SECONDS = 2.0


@contextlib.contextmanager
def paused(run_id: str) -> Iterator[bool]:
    """Keep all processes of a run from running meanwhile; say whether all of them are still.

    Those that somebody else has stopped stay so afterwards.
    """
    stopped: list[ProcessStat] = []
    try:
        yield _stop(run_id, stopped)
    finally:
        for process in stopped:
            _send(process, signal.SIGCONT)


def _stop(run_id: str, stopped: list[ProcessStat]) -> bool:
    """Stop the processes of a run, and those that they have started meanwhile; add them to `stopped`."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    processes = RunProcesses()
    while time.monotonic() < deadline:
        members = processes.scan().get(run_id, RunTree()).members
        moving = [process for process in members if not process.zombie and not _is_still(process.pid)]
        if not moving:
            return True
        for process in moving:
            if process.pid not in {one.pid for one in stopped}:
                if not _send(process, signal.SIGSTOP):
                    return False
                stopped.append(process)
        time.sleep(_POLL_SECONDS)
    return False


def _is_still(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _send(process: ProcessStat, number: signal.Signals) -> bool:
    """Send a signal, unless the process has ended; return whether that was allowed."""
    try:
        if is_alive(process.pid, process.created):
            os.kill(process.pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True
