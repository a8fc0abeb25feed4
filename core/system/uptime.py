"""Time since this host's start. No change of its clock affects it."""

from __future__ import annotations

import time

__all__ = ["booted_at", "uptime"]


def uptime() -> float:
    """Return seconds since this host was started, those that it slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def booted_at() -> float:
    """Return when this host was started, in Unix seconds by its clock: another time once that is set."""
    return time.time() - uptime()
