"""Retry of questions to an executor that is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypergauge.core.errors import BenchError
from hypergauge.scheduler.executors.base import ExecutorAway
from hypergauge.scheduler.executors.concurrency import Stopping

__all__ = ["GivenUp", "Retry"]

T = TypeVar("T")

_AGAIN_SECONDS = 5.0


class GivenUp(BenchError):
    """The schedule was stopped while the executor was away."""


class Retry:
    """Asks an executor; `say` is told when it is away, and when it is there again."""

    def __init__(self, say: Callable[[str], None], stopping: Stopping) -> None:
        self._say, self._stopping = say, stopping
        self._away = False

    def ask(self, question: Callable[[], T]) -> T | None:
        """Return the answer, ``None`` where nobody answers now."""
        try:
            answer = question()
        except ExecutorAway as error:
            if not self._away:
                self._say(f"{error}; what runs goes on, and it is asked again")
            self._away = True
            return None
        if self._away:
            self._say("it answers again")
        self._away = False
        return answer

    def insist(self, question: Callable[[], T]) -> T:
        """Return the answer, however long it takes.

        Raises
        ------
        GivenUp
            The schedule is to end, and nobody has answered.
        """
        while (answers := self.ask(lambda: [question()])) is None:
            if self._stopping.asked.wait(_AGAIN_SECONDS):
                raise GivenUp
        return answers[0]
