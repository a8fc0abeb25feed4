"""Retry of requests to a batch system that does not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypergauge.core.errors import BenchError
from hypergauge.core.system.backoff import Backoff
from hypergauge.scheduler.executors.base import ExecutorAway, Stopping

__all__ = ["GivenUp", "Retry"]

T = TypeVar("T")

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 10.0


class GivenUp(BenchError):
    """The schedule was stopped while the executor did not answer."""


class Retry:
    """Sender of requests to a batch system; `notify` receives a message when it stops or resumes answering."""

    def __init__(self, notify: Callable[[str], None], stopping: Stopping) -> None:
        self._notify, self._stopping = notify, stopping
        self._away = False

    def send(self, request: Callable[[], T]) -> T | None:
        """Return the answer, ``None`` if the batch system does not answer."""
        try:
            answer = request()
        except ExecutorAway as error:
            if not self._away:
                self._notify(f"{error}; runs continue, and the request is repeated")
            self._away = True
            return None
        if self._away:
            self._notify("the executor answers again")
        self._away = False
        return answer

    def insist(self, request: Callable[[], T]) -> T:
        """Return the answer; retry until there is one.

        Raises
        ------
        GivenUp
            The schedule was stopped before there was an answer.
        """
        backoff = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS)
        while (answers := self.send(lambda: [request()])) is None:
            if self._stopping.asked.wait(backoff.failed()):
                raise GivenUp
        return answers[0]
