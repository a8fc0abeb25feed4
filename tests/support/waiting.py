"""Waiting for other processes and threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from hypergauge.core.system.processes import read_environment

# Limit after which a test counts as hung. It is no limit of speed: the machine may be busy.
HUNG_SECONDS = 240.0

T = TypeVar("T")


def wait_for(condition: Callable[[], T | None], what: object = "it", timeout: float = HUNG_SECONDS) -> T:
    """Wait until `condition` is true, and return its value."""
    deadline = time.monotonic() + timeout
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout:g} s"
        time.sleep(0.02)
    return answer


def wait_for_environment(pid: int, variable: str) -> None:
    """Wait until a child's environment has `variable`, with which it was started.

    A parent may continue during the child's exec, before the new environment is in place.
    """
    name = variable.encode()
    wait_for(lambda: read_environment(pid, (name,)), f"{variable} of process {pid}")
