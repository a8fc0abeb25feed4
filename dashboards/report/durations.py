"""Histogram of step durations on a report, as a chart with an outline for each run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hypergauge.dashboards.plots.axes import Axis, value_axis
from hypergauge.dashboards.plots.panels import Entry, Layout, Line, Panel
from hypergauge.dashboards.terminal.formatting import duration
from hypergauge.insight.charts.step_durations import StepDurations
from hypergauge.sql.runs.selection import with_sharing

__all__ = ["lay_out_durations"]


def lay_out_durations(found: StepDurations) -> Layout:
    """Return the layout of a histogram. A point is the left edge of a bin; a bin of 0 closes the outlines."""
    edges = np.array([found.first + found.width * at for at in range(len(found.runs[0].counts) + 1)], np.float64)
    x = replace(value_axis("step_duration", "seconds", float(edges[-1])), name="step duration")
    lines = []
    for key, one in enumerate(found.runs):
        counts = np.array([*one.counts, 0], np.float64)
        lines.append(Line(key, edges / x.size, counts, counts, counts))
    entries = tuple(
        Entry(with_sharing(f"{one.run.full_label} {one.run.name}".rstrip(), [one.run]), one.style) for one in found.runs
    )
    panel = Panel(Axis("steps", ""), from_zero=True, lines=tuple(lines), counts=True)
    return Layout(x, float(edges[0]) / x.size, (panel,), entries, tuple(_notes(found)))


def _notes(found: StepDurations) -> list[str]:
    longer = [
        f"{one.run.full_label}: {one.longer:,}, up to {duration(one.longest)}" for one in found.runs if one.longer
    ]
    notes = [f"Not drawn, since longer than 99% of the steps: {'; '.join(longer)}."] if longer else []
    if found.left_out:
        notes.append(f"The steps of {found.left_out:,} further runs are not drawn.")
    return notes
