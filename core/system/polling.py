"""Poll of file descriptors, also above 1023, where ``select.select`` ends."""

from __future__ import annotations

import select
from collections.abc import Iterable
from typing import IO

__all__ = ["readable"]


def readable(files: Iterable[IO[bytes] | int], seconds: float) -> bool:
    """Wait until one of `files` can be read, or is at its end, for so many seconds at most; return whether it is so."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
