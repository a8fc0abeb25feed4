"""Delivery of reports: their entries and stacks into the database."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Iterable

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.profilers.registry import PROFILERS
from hypergauge.scheduler.profilers.reports.entries import entries, heaviest
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording, UnreadableReport
from hypergauge.sql.ingest.software import SpanRecord
from hypergauge.sql.runs.profiles import store_profile
from hypergauge.sql.server.database import Connection

__all__ = ["phases_of", "store_report", "store_reports"]

# For pictures. The entries count all stacks.
_MOST_STACKS = 3000


def phases_of(spans: Iterable[SpanRecord]) -> Phases:
    """Return the phases among the spans of a run."""
    return Phases((span.started_at, span.ended_at or float("inf"), span.name) for span in spans if span.kind == "phase")


def store_reports(connection: Connection, folder: RunFolder, phases: Phases, notify: Callable[[str], None]) -> None:
    """Store the reports of a run's folder in the database; `notify` receives why one could not be read."""
    for name, profiler in PROFILERS.items():
        if (report := folder.path / profiler.report).exists():
            read = functools.partial(profiler.read, report, phases)
            if problem := store_report(connection, folder, name, 1, read):
                notify(f"the report {report.name} of run {folder.run_id[:8]} is not in the database: {problem}")


def store_report(
    connection: Connection,
    folder: RunFolder,
    profiler: str,
    number: int,
    read: Callable[[], Recording | None],
    times: tuple[float | None, float | None] = (None, None),
) -> str | None:
    """Store a report of a run; return why it could not be read, which is stored too.

    Parameters
    ----------
    times
        Start and end of the recording in Unix seconds, for a report without times.
    """
    recording, problem = None, None
    try:
        recording = read()
        if recording is None:
            return None
        if not recording.stacks:
            problem = "it recorded nothing"
    except (UnreadableReport, OSError, MemoryError, subprocess.SubprocessError) as error:
        problem = str(error) or type(error).__name__
    if recording is None:
        store_profile(connection, folder.run_id, profiler, number, times=times, problem=problem)
        return problem
    started_at, ended_at = times
    store_profile(
        connection, folder.run_id, profiler, number,
        times=(recording.started_at or started_at, recording.ended_at or ended_at),
        rate=recording.rate, problem=problem,
        entries=entries(recording.stacks), stacks=heaviest(recording.stacks, _MOST_STACKS),
    )  # fmt: skip
    return problem
