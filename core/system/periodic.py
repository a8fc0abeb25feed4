"""Periodic background work, with one rule for failures that its owner can see."""

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
    """Takes a turn again and again, in a thread of its own.

    A turn that fails, for whatever reason, is over, and the next one comes: no failure ends the work or reaches anybody who
    does something else. The first of several failures in a row is logged, and so is the turn that works again.

    Parameters
    ----------
    name
        What it is, for the log.
    turn
        Does the work once. It may return how many seconds the next turn is away; else that is `interval`.
    interval
        Seconds between two turns, and before the first one unless that is wanted `at_once`.
    longest
        Seconds between two turns where one after the other fails: the pause doubles until then; `interval` by default.
    level
        Of what is logged where something fails that may; lower where a command shows people what matters to them.

    Attributes
    ----------
    problem
        Why the last turn failed, ``None`` where it worked.
    worked_at
        When a turn last worked, by `time.monotonic`; the start before the first one.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], float | None] | Callable[[], None],
        interval: float,
        *,
        longest: float | None = None,
        at_once: bool = False,
        level: int = logging.WARNING,
    ) -> None:
        self.problem: str | None = None
        self.worked_at = time.monotonic()
        self._name, self._turn, self._interval, self._level = name, turn, interval, level
        longest = interval if longest is None else longest
        self._backoff = Backoff(min(2 * interval, longest), longest)
        self._first = 0.0 if at_once else interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> Self:
        """Begin; return this."""
        self.worked_at = time.monotonic()
        self._thread.start()
        return self

    def end(self, patience: float | None = None) -> bool:
        """Take no further turn; return whether the last one is over, within `patience` seconds where that is given.

        Safe to call twice, and before `start`.
        """
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(patience)
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def ending(self) -> bool:
        """Return whether no further turn is wanted: a long one may look."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait within a turn; return whether it is to end."""
        return self._ended.wait(seconds)

    def _work(self) -> None:
        pause = self._first
        while not self._ended.wait(pause):
            try:
                next_turn = self._turn()
            except Exception as error:  # noqa: BLE001 - that is the rule
                self._failed(error)
                pause = self._backoff.failed()
            else:
                if self.problem is not None:
                    _log.log(self._level, "%s: works again", self._name)
                self.problem, self.worked_at = None, time.monotonic()
                self._backoff.worked()
                pause = self._interval if next_turn is None else next_turn

    def _failed(self, error: Exception) -> None:
        if self.problem is None:
            if isinstance(error, (BenchError, OSError)):
                _log.log(self._level, "%s: failed, and is tried again: %s", self._name, error)
            else:  # a fault of ours
                _log.error("%s: failed, and is tried again", self._name, exc_info=error)
        self.problem = str(error) or type(error).__name__
