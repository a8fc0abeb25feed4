"""Profilers that wrap a run: ``nsys``, ``ncu``, ``perf``, ``perf-record``, ``py-spy``, and ``torch`` for PyTorch's own."""

from __future__ import annotations

from hypergauge.scheduler.profilers.base import MARK, Profiler
from hypergauge.scheduler.profilers.command import CommandEnd, ProfiledCommand
from hypergauge.scheduler.profilers.defaults import completed
from hypergauge.scheduler.profilers.registry import PROFILERS, RELAY, around, notes, problems, reports, wrapped

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
    "reports",
    "wrapped",
]
