"""Exporters that measure the workloads of a plan, with those that other runs on the host need meanwhile."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator, Mapping, Sequence

from hypergauge.scheduler.plan.plan import Action, PlannedWorkload
from hypergauge.sql.ingest.choices import Choice, host_choices, interval_needed
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["live_choices", "measuring_notes", "running_in_words", "shown_choices"]


def live_choices(connection: Connection, without: Collection[str] = ()) -> dict[str, Choice | None]:
    """Return the choices of this host's live runs by label, except those of the runs `without`."""
    found = host_choices(connection).get(platform.node(), {})
    live = {run_id: choice for run_id, choice in found.items() if run_id not in without}
    return {run.label: live[run.run_id] for run in select_runs(connection, list(live))} if live else {}


def running_in_words(labels: Collection[str]) -> str:
    """Return that runs run: ``20/1/1 runs``, ``20/1/1, 20/1/2 run``."""
    return f"{', '.join(labels)} {'runs' if len(labels) == 1 else 'run'}"


def measuring_notes(
    workloads: Sequence[PlannedWorkload], others: Mapping[str, Choice | None], configured: float
) -> Iterator[str]:
    """Yield a line about each workload with a choice of exporters, and what measures it beyond that choice.

    Parameters
    ----------
    others
        Choices of other live runs of this host, by label.
    configured
        Seconds between scrapes where a row names none.
    """
    for one in workloads:
        own = [run.row.listeners for run in one.runs if run.action is not Action.SKIP]
        if not own or all(choice is None for choice in own):
            continue
        shown = shown_choices(own, configured)
        together = shown_choices([*own, *others.values()], configured)
        label = f"{one.experiment}/{one.workload}"
        if together == shown:
            yield f"{label} is measured by {shown}"
        else:
            meanwhile = f"while {running_in_words(others)} on this host"
            yield f"{label} chooses {shown}, but is measured by {together} {meanwhile}"


def shown_choices(choices: Collection[Choice | None], configured: float) -> str:
    """Return the exporters that some runs need together: ``host every 1 s and nvml every 0.1 s``."""
    names = sorted({name for choice in choices for name in choice or ()})
    needed = {name: interval_needed(choices, name, configured) or configured for name in names}
    if any(choice is None for choice in choices):
        faster = [f"{name} every {needed[name]:g} s" for name in names if needed[name] != configured]
        return " and ".join(["every exporter that works here", *faster])
    return " and ".join(f"{name} every {seconds:g} s" for name, seconds in needed.items()) or "no exporter"
