"""Concurrent calls, for functions that mostly wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["each"]

T = TypeVar("T")


def each(function: Callable[[T], None], items: Sequence[T], at_once: int = 8) -> None:
    """Call `function` with each item, `at_once` items at a time; raise the first error after the last call.

    Daemon threads, unlike those of `concurrent.futures`: an interrupt does not wait for a server without an answer.
    """
    if len(items) == 1:
        function(items[0])
        return
    errors: list[Exception] = []
    left = iter(range(len(items)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            try:
                function(items[number])
            except Exception as error:  # noqa: BLE001 - raised below, in the caller's thread
                errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(items)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
