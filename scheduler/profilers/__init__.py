"""Profilers that wrap a run: ``nsys``, ``ncu``, ``perf``, ``py-spy``, and ``torch`` for PyTorch's own."""

from __future__ import annotations

from hypergauge.scheduler.profilers.base import MARK, Profiler
from hypergauge.scheduler.profilers.command import CommandEnd, ProfiledCommand
from hypergauge.scheduler.profilers.registry import PROFILERS, RELAY, around, problems, reports, wrapped

__all__ = [
    "MARK",
    "PROFILERS",
    "RELAY",
    "CommandEnd",
    "ProfiledCommand",
    "Profiler",
    "around",
    "problems",
    "reports",
    "wrapped",
]
