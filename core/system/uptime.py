"""Time since this host's boot, which changes of its clock do not affect."""

from __future__ import annotations

import time

__all__ = ["booted_at", "uptime"]


def uptime() -> float:
    """Return seconds since this host's boot, including suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def booted_at() -> float:
    """Return the time of this host's boot in Unix seconds; it moves when the clock is set."""
    return time.time() - uptime()
