"""Profilers that wrap a run: ``nsys``, ``ncu``, ``perf`` and PyTorch's own, ``torch``."""

from __future__ import annotations

from scheduler.profilers.base import MARK, Profiler
from scheduler.profilers.command import CommandEnd, ProfiledCommand
from scheduler.profilers.registry import PROFILERS, around, problems, reports, wrapped

__all__ = ["MARK", "PROFILERS", "CommandEnd", "ProfiledCommand", "Profiler", "around", "problems", "reports", "wrapped"]
