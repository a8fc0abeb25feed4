"""Exporters that measure the workloads of a plan, with those that other runs on the host need meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hypergauge.scheduler.plan.plan import Action, PlannedWorkload
from hypergauge.sql.ingest.choices import Choice, interval_needed

__all__ = ["measuring_notes", "shown_choices"]


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
            runs = f"{', '.join(others)} {'runs' if len(others) == 1 else 'run'}"
            yield f"{label} chooses {shown}, but is measured by {together} while {runs} on this host"


def shown_choices(choices: Collection[Choice | None], configured: float) -> str:
    """Return the exporters that some runs need together: ``host every 1 s and nvml every 0.1 s``."""
    names = sorted({name for choice in choices for name in choice or ()})
    needed = {name: interval_needed(choices, name, configured) or configured for name in names}
    if any(choice is None for choice in choices):
        faster = [f"{name} every {needed[name]:g} s" for name in names if needed[name] != configured]
        return " and ".join(["every exporter that works here", *faster])
    return " and ".join(f"{name} every {seconds:g} s" for name, seconds in needed.items()) or "no exporter"
