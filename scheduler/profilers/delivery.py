"""Delivery of reports: their entries and stacks into the database."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.containment import contained, reason
from hypergauge.scheduler.profilers.registry import PROFILERS
from hypergauge.scheduler.profilers.reports.entries import entries, heaviest
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording, UnreadableReport
from hypergauge.sql.ingest.limits import storable
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
        if not (report := folder.path / profiler.report).is_file():
            continue
        subject = f"the report {report.name} of run {folder.run_id[:8]}"
        with contained(f"{subject} is not in the database", notify):
            read = functools.partial(profiler.read, report, phases)
            for message in store_report(connection, folder, name, 1, read):
                notify(f"{subject} {message}")


def store_report(
    connection: Connection,
    folder: RunFolder,
    profiler: str,
    number: int,
    read: Callable[[], Recording | None],
    times: tuple[float | None, float | None] = (None, None),
) -> list[str]:
    """Store a report of a run; return what is wrong with it. Why it could not be read is stored too.

    Parameters
    ----------
    times
        Start and end of the recording in Unix seconds, for a report without times.
    """
    problem = None
    try:
        recording = read()
        if recording is None:
            return []
        content = entries(recording.stacks), heaviest(recording.stacks, _MOST_STACKS)
        if not recording.stacks:
            problem = "it recorded nothing"
    except UnreadableReport as error:
        recording, problem = None, storable(str(error))
    except Exception as error:  # noqa: BLE001 - a run may have written anything
        recording, problem = None, storable(reason(error))
    if recording is None:
        store_profile(connection, folder.run_id, profiler, number, times=times, problem=problem)
        return [f"is not in the database: {problem}"]
    started_at, ended_at = times
    store_profile(
        connection, folder.run_id, profiler, number,
        times=(recording.started_at or started_at, recording.ended_at or ended_at),
        rate=recording.rate, problem=problem,
        entries=content[0], stacks=content[1],
    )  # fmt: skip
    messages = [f"is not in the database: {problem}"] if problem else []
    if recording.skipped:
        messages.append(f"has {recording.skipped:,} records without a valid time, which are left out")
    return messages
