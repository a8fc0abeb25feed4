"""Waiting for other processes and threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from hypergauge.core.system.processes import read_environment

# After that a test calls it hung. A limit, and no statement about speed: the machine may be as busy as it likes.
HUNG_SECONDS = 240.0

T = TypeVar("T")


def wait_for(condition: Callable[[], T | None], what: object = "it", timeout: float = HUNG_SECONDS) -> T:
    """Wait until `condition` is true, and return what it said."""
    deadline = time.monotonic() + timeout
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what} did not come about within {timeout:g} s"
        time.sleep(0.02)
    return answer


def wait_for_environment(pid: int, variable: str) -> None:
    """Wait until a child shows `variable`, which it was started with.

    The kernel lets a parent go on in the middle of the child's exec, when the new environment is not yet in place.
    """
    name = variable.encode()
    wait_for(lambda: read_environment(pid, (name,)), f"{variable} of process {pid}")
