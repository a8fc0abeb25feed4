"""Parallel calls: several waits at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["each"]

T = TypeVar("T")


def each(function: Callable[[T], None], items: Sequence[T], at_once: int = 8) -> None:
    """Call `function` with each item, with `at_once` of them at the same time; raise the first error when all are through.

    The threads are daemons: an interrupt does not wait for a server that does not answer, which an executor's would.
    """
    if len(items) == 1:
        function(items[0])
        return
    errors: list[Exception] = []
    left = iter(range(len(items)))
    turn = threading.Lock()

    def work() -> None:
        while True:
            with turn:
                number = next(left, None)
            if number is None:
                return
            try:
                function(items[number])
            except Exception as error:  # noqa: BLE001 - it is raised below, in the caller's thread
                errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(items)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
