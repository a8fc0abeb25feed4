"""Profilers that wrap a run: ``nsys``, ``ncu``, ``perf``, ``perf-record``, ``py-spy``, and ``torch`` for PyTorch's own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypergauge.scheduler.profilers.base import Profiler
    from hypergauge.scheduler.profilers.command import CommandEnd, ProfiledCommand
    from hypergauge.scheduler.profilers.defaults import completed
    from hypergauge.scheduler.profilers.mark import MARK
    from hypergauge.scheduler.profilers.registry import (
        PROFILERS,
        RELAY,
        around,
        notes,
        problems,
        wrapped,
        written_reports,
    )

__all__ = [
    "MARK",
    "PROFILERS",
    "RELAY",
    "CommandEnd",
    "ProfiledCommand",
    "Profiler",
    "around",
    "completed",
    "notes",
    "problems",
    "wrapped",
    "written_reports",
]

_MODULES = {
    "MARK": "mark",
    "Profiler": "base",
    "CommandEnd": "command",
    "ProfiledCommand": "command",
    "completed": "defaults",
}


def __getattr__(name: str) -> Any:
    """Import profilers on first use, because the supervisor of most runs does not need them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'registry')}"), name)
