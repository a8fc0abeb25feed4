"""Formatted comparison, for the terminal and for pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from hypergauge.dashboards.terminal.formatting import SIMULATED, SIMULATED_NOTE, duration, value_text
from hypergauge.dashboards.terminal.tables import status, table
from hypergauge.insight.comparison.columns import CO2_KEY, ENERGY_KEY, ENERGY_TO_TARGET, TIME_TO_TARGET, is_of_energy

if TYPE_CHECKING:
    from hypergauge.insight.comparison.comparison import Comparison, Entry

__all__ = ["Cell", "Sheet", "comparison_table", "sheet"]

_TITLES = {
    "duration_seconds": "duration",
    "makespan_seconds": "makespan",
    "cpu_utilization": "CPU",
    "cpu_seconds": "CPU time",
    "peak_memory_bytes": "peak memory",
    "disk_read_bytes": "read",
    "disk_write_bytes": "written",
    "gpu_utilization": "GPU",
    "gpu_sm_active": "SM active",
    "gpu_peak_memory_bytes": "GPU memory",
    "gpu_power_watts": "GPU power",
    ENERGY_KEY: "GPU energy",
    CO2_KEY: "CO₂",
}
# Suffixes of a value.
_SHARED = "†"
_WITH_IDLE = "‡"
_OF_HOST = "§"


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of a value, ``93%†``, and its change against the baseline, ``+12%``."""

    text: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Lines of a formatted comparison.

    Attributes
    ----------
    columns
        Headings of the values; label, name and status precede them.
    lines
        Label, name, status and values of each entry.
    notes
        Meanings of the marks.
    part
        Part of each run that the values cover, if not the whole run.
    """

    by: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, str, str, tuple[Cell, ...]], ...]
    notes: tuple[str, ...]
    part: str | None = None


def sheet(found: Comparison) -> Sheet:
    """Return a formatted comparison."""
    metrics = list(dict.fromkeys(key for entry in found.entries for key in entry.values))
    # Columns of zeros would take the space of columns that matter.
    metrics = [key for key in metrics if any(entry.values.get(key, 0) > 0 for entry in found.entries)]
    software = list(dict.fromkeys(key for entry in found.entries for key in entry.software))[:6]
    attempts = ["attempts"] if found.by == "row" else []
    lines = []
    for entry in found.entries:
        label = entry.label + (SIMULATED if entry.simulated else "")
        label = f"{label} (baseline)" if entry.label == found.baseline else label
        cells = [
            *(Cell(_attempts(entry)) for _ in attempts),
            *(
                Cell(
                    value_text(key, entry.values.get(key)) + _deviation(entry, key) + _scope_mark(entry, key),
                    _change(entry, key),
                )
                for key in metrics
            ),
            *(
                Cell(value_text(key, entry.software.get(key)) + _deviation(entry, key), _change(entry, key))
                for key in software
            ),
        ]
        lines.append((label, entry.name, entry.status, tuple(cells)))
    notes = [SIMULATED_NOTE] if any(entry.simulated for entry in found.entries) else []
    marks = {_scope_mark(entry, key) for entry in found.entries for key in metrics}
    if _SHARED in marks:
        notes.append(f"{_SHARED} of the whole GPU or shared with other runs: not the run's own")
    if _WITH_IDLE in marks:
        notes.append(f"{_WITH_IDLE} includes idle energy of its GPUs")
    if _OF_HOST in marks:
        notes.append(f"{_OF_HOST} of the whole host: not the run's own")
    return Sheet(
        found.by, (*attempts, *(_heading(found, key) for key in metrics), *software), tuple(lines), tuple(notes),
        part=_part(found),
    )  # fmt: skip


def comparison_table(found: Comparison) -> Table:
    """Return the table of a comparison; changes against the baseline follow the values."""
    read = sheet(found)
    made = table(
        read.by,
        "name",
        "status",
        *(f">{escape(column)}" for column in read.columns),
        title=read.part and escape(read.part),
    )
    for label, name, state, cells in read.lines:
        metrics = (escape(cell.text) + (f" [dim]({cell.change})[/]" if cell.change else "") for cell in cells)
        made.add_row(label, escape(name), status(state), *metrics)
    if read.notes:
        made.caption, made.caption_justify = "\n".join(read.notes), "left"
    return made


def _part(found: Comparison) -> str | None:
    part = found.window
    if part is None:
        return None
    if part.first is None or part.last is None:
        return f"over the phase {' or '.join(part.phases)}"
    if part.align == "time":
        return f"over the first {duration(part.last)}"
    return f"over {part.align}s {part.first:,.10g} to {part.last:,.10g}"


def _heading(found: Comparison, key: str) -> str:
    if key in (TIME_TO_TARGET, ENERGY_TO_TARGET):
        return f"{key.partition('_')[0]} to {found.entries[0].target}"
    if key.startswith("cost_"):
        return f"cost ({key.removeprefix('cost_').upper()})"
    return _TITLES.get(key, key)


def _attempts(entry: Entry) -> str:
    counted, there = len(entry.counted), len(entry.runs)
    return str(there) if counted == there else f"{counted} of {there}"


def _deviation(entry: Entry, key: str) -> str:
    deviation = entry.deviations.get(key)
    return "" if deviation is None else f" ± {value_text(key, deviation)}"


def _scope_mark(entry: Entry, key: str) -> str:
    if is_of_energy(key) and key in entry.values and entry.has_idle_energy:
        return _WITH_IDLE
    if key.startswith("gpu_"):
        return _SHARED if entry.scopes.get(key) in ("device", "host") else ""
    return _OF_HOST if entry.scopes.get(key) == "host" else ""


def _change(entry: Entry, key: str) -> str:
    change = entry.changes.get(key)
    return "" if change is None else f"{change:+.0%}"
