"""Storage of the highlights of ended runs in the background, so that the first reader need not wait."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from hypergauge.core.listing import counted
from hypergauge.core.plain import plain
from hypergauge.core.system.backoff import Backoff
from hypergauge.core.system.periodic import Periodic
from hypergauge.core.system.polling import wait_until

__all__ = ["HighlightStorage"]

_COMMAND = (sys.executable, "-P", "-m", "hypergauge.insight.highlights.storage")
_LOOK_SECONDS = 0.5
# On a busy host the libraries alone take half a minute. Nothing waits for this process.
_START_SECONDS, _RUN_SECONDS = 120.0, 60.0
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 600.0
# Longest wait at the end: the stack stops a service after some more seconds.
_LAST_SECONDS = 8.0
# Runs a process: each prints its id once it is stored, so an interruption costs one of them.
_BATCH = 50


class HighlightStorage:
    """Queue of ended runs, and the process that stores their highlights. A failed run is retried.

    Parameters
    ----------
    waiting
        Called with the number of runs in the queue when it changes.
    failed
        Called after each failure.
    command
        Process that stores the highlights of the runs in its arguments and prints the id of each stored run.
    """

    def __init__(
        self, waiting: Callable[[int], None], failed: Callable[[], None], command: Iterable[str] = _COMMAND
    ) -> None:
        self._waiting, self._failed, self._command = waiting, failed, list(command)
        self._pending: dict[str, None] = {}
        self._lock = threading.Lock()
        self._backoff = Backoff(_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._process: subprocess.Popen[str] | None = None
        self._is_failing, self._ended = False, threading.Event()
        self._thread = Periodic("storage of highlights", self._store, _LOOK_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for a few seconds, then end the process; the next start continues with the remaining runs."""
        wait_until(lambda: not self._pending or self._is_failing, _LAST_SECONDS)
        with self._lock:
            self._ended.set()
            if self._process is not None:
                self._process.kill()
        self._thread.end()

    def add(self, run_ids: Iterable[str]) -> None:
        """Queue runs."""
        with self._lock:
            self._pending.update(dict.fromkeys(run_ids))
            self._waiting(len(self._pending))

    def _store(self) -> float | None:
        with self._lock:
            batch = list(self._pending)[:_BATCH]
            if not batch or self._ended.is_set():
                return None
            self._process = subprocess.Popen(
                [*self._command, *batch],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        reason, stored = _outcome(self._process, _START_SECONDS + _RUN_SECONDS * len(batch))
        missing = [run_id for run_id in batch if run_id not in stored]
        with self._lock:
            self._process = None
            for run_id in batch:
                del self._pending[run_id]
            self._pending.update(dict.fromkeys(missing))  # behind the others
            self._waiting(len(self._pending))
            self._is_failing = bool(missing)
            if self._ended.is_set():
                return None
        if not missing:
            self._backoff.worked()
            return None
        self._failed()
        pause = self._backoff.failed()
        sys.stderr.write(
            f"highlights of {counted(len(missing), 'run')} are not stored: {plain(reason)}; next try in {pause:.0f} s\n"
        )
        return pause


def _outcome(process: subprocess.Popen[str], limit: float) -> tuple[str, set[str]]:
    """Wait for a process, and return the reason of its failure and the runs that it has stored."""
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return f"no end within {limit:.0f} s", set(output.split())
    lines = errors.strip().splitlines()
    return lines[-1] if lines else f"exit status {process.returncode}", set(output.split())
