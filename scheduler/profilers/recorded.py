"""Recorded calls of a run, from the report of PyTorch's profiler on this host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypergauge.core.calls import Call
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.profilers.pytorch import Torch
from hypergauge.scheduler.profilers.reports.stacks import UnreadableReport

__all__ = ["recorded_calls"]


def recorded_calls(home: Path, run_id: str, notify: Callable[[str], None]) -> list[Call]:
    """Return the calls of a run with Unix times; none without a report. `notify` receives why one cannot be read."""
    folder = RunFolder.find(home, run_id)
    if folder is None or not (report := folder.path / Torch.report).exists():
        return []
    from hypergauge.scheduler.profilers.reports.kineto import read_calls

    try:
        return read_calls(report)
    except (UnreadableReport, OSError) as error:
        notify(f"the trace lacks the calls of run {run_id[:8]}: {report.name}: {error}")
        return []
