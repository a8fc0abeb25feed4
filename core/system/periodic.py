"""Supervised periodic thread: failures are logged and retried, and visible to its owner."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from hypergauge.core.errors import BenchError
from hypergauge.core.system.backoff import Backoff

__all__ = ["Periodic"]

_log = logging.getLogger(__name__)


class Periodic:
    """Thread that calls a function periodically.

    No exception ends the thread: the next call follows, later with each consecutive failure. The thread logs the first
    of several consecutive failures, and the first success after them.

    Parameters
    ----------
    name
        Name of the thread, and of the work in log lines.
    call
        Does the work once. It may return the seconds until the next call; the default is `interval`.
    interval
        Seconds between two calls, and before the first one unless `at_once`.
    longest
        Longest pause after consecutive failures, to which the pause doubles; `interval` by default.
    level
        Level of log lines for expected failures; lower in commands that show failures another way.

    Attributes
    ----------
    problem
        Error of the last call, ``None`` after a success.
    worked_at
        Time of the last success by `time.monotonic`; before the first success, time of the start.
    """

    def __init__(
        self,
        name: str,
        call: Callable[[], float | None] | Callable[[], None],
        interval: float,
        *,
        longest: float | None = None,
        at_once: bool = False,
        level: int = logging.WARNING,
    ) -> None:
        self.problem: str | None = None
        self.worked_at = time.monotonic()
        self._name, self._call, self._interval, self._level = name, call, interval, level
        longest = interval if longest is None else longest
        self._backoff = Backoff(min(2 * interval, longest), longest)
        self._first = 0.0 if at_once else interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> Self:
        """Start the thread; return this object."""
        self.worked_at = time.monotonic()
        self._thread.start()
        return self

    def end(self, timeout: float | None = None) -> bool:
        """End after the current call; return whether it has returned within `timeout` seconds.

        Safe to call twice, and before `start`.
        """
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def ending(self) -> bool:
        """Return whether the thread should end; long calls can check it."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait within a call; return whether the thread should end."""
        return self._ended.wait(seconds)

    def _work(self) -> None:
        pause = self._first
        while not self._ended.wait(pause):
            try:
                pause_after = self._call()
            except Exception as error:  # noqa: BLE001 - the next call may succeed
                self._failed(error)
                pause = self._backoff.failed()
            else:
                if self.problem is not None:
                    _log.log(self._level, "%s: works again", self._name)
                self.problem, self.worked_at = None, time.monotonic()
                self._backoff.worked()
                pause = self._interval if pause_after is None else pause_after

    def _failed(self, error: Exception) -> None:
        if self.problem is None:
            if isinstance(error, (BenchError, OSError)):
                _log.log(self._level, "%s: failed, and is tried again: %s", self._name, error)
            else:  # an internal error
                _log.error("%s: failed, and is tried again", self._name, exc_info=error)
        self.problem = str(error) or type(error).__name__
