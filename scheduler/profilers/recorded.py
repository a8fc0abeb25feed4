"""Recorded calls of a run, from the reports of profilers on this host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypergauge.core.calls import Call
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.containment import contained
from hypergauge.scheduler.profilers.registry import PROFILERS
from hypergauge.scheduler.profilers.reports.stacks import UnreadableReport

__all__ = ["recorded_calls"]


def recorded_calls(home: Path, run_id: str, notify: Callable[[str], None]) -> list[Call]:
    """Return the calls of a run with Unix times; none without a report. `notify` receives why one cannot be read."""
    if (folder := RunFolder.find(home, run_id)) is None:
        return []
    calls: list[Call] = []
    for profiler in PROFILERS.values():
        if not (report := folder.path / profiler.report).is_file():
            continue
        subject = f"the trace lacks the calls of run {run_id[:8]}: {report.name}"
        with contained(subject, notify):
            try:
                calls += profiler.calls(report)
            except UnreadableReport as error:
                notify(f"{subject}: {error}")
    return calls
