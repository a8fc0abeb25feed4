"""Bounded waits: for file descriptors, and for a condition."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from typing import IO

__all__ = ["readable", "wait_until"]


def readable(files: Iterable[IO[bytes] | int], seconds: float) -> bool:
    """Wait until one of `files` is readable or at its end; return whether this happened within `seconds`."""
    poll = select.poll()  # `select.select` fails for descriptors above 1023
    for file in files:
        poll.register(file, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def wait_until(true: Callable[[], bool], seconds: float, pause: float = 0.1) -> bool:
    """Wait until `true` returns true; return whether it did within `seconds`.

    It is called at least once, and then every `pause` seconds.
    """
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
    return True
