"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.markup import escape
from rich.table import Table

from hypergauge.insight.comparison.columns import CO2_KEY, ENERGY_KEY, ENERGY_TO_TARGET, TIME_TO_TARGET, is_of_energy
from hypergauge.sql.queries.summaries import Coverage
from hypergauge.sql.runs.highlights import Highlight
from hypergauge.sql.runs.selection import ExperimentInfo, RunInfo

if TYPE_CHECKING:
    from hypergauge.insight.comparison.comparison import Comparison, Entry

__all__ = [
    "SIMULATED",
    "Cell",
    "Sheet",
    "comparison",
    "coverage",
    "duration",
    "evidence",
    "experiments",
    "highlight_lines",
    "highlights",
    "runs",
    "sheet",
    "table",
    "value_text",
]

_COLORS = {"finished": "green", "failed": "red", "timeout": "red", "stopped": "yellow", "running": "cyan"}
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
# Suffixes of a run's label, and of a value.
SIMULATED = " *"
_SIMULATED_NOTE = "* on simulated GPUs: their metrics are not real"
_SHARED = "†"
_WITH_IDLE = "‡"
_OF_HOST = "§"


def table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table in our style; a column with a name that begins with ``>`` is right-aligned."""
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for position, column in enumerate(columns):
        # On a narrow terminal the first column, the subject of the line, shrinks last.
        justify: Literal["left", "right"] = "right" if column.startswith(">") else "left"
        made.add_column(column.removeprefix(">"), justify=justify, no_wrap=position == 0 or column == "status")
    return made


def duration(seconds: float | None) -> str:
    """Return a duration as text: ``20 ms``, ``4.2 s``, ``3:07``, ``2:03:07``."""
    if seconds is None:
        return ""
    if seconds < 0.95:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def evidence(content: Mapping[str, Any]) -> str:
    """Return the evidence of a finding as text: ``share: 0.97; cores: 1.94``."""
    return "; ".join(f"{key.replace('_', ' ')}: {_evidence(key, value)}" for key, value in content.items())


def _evidence(key: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_evidence(key, one) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_evidence(key, one)}" for name, one in value.items())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value_text("_bytes", value) if key.endswith("_bytes") else f"{value:.3g}"
    return str(value)


def value_text(key: str, value: float | None) -> str:
    """Return a value of a comparison with its unit."""
    if value is None:
        return ""
    if key in ("duration_seconds", "makespan_seconds", "cpu_seconds", TIME_TO_TARGET):
        return duration(value)
    if key.endswith("_bytes"):
        return _bytes(value)
    if key == "cpu_utilization":
        return f"{value:.2f} cores"
    if key in ("gpu_utilization", "gpu_sm_active"):
        return f"{value:.0%}"
    if key.endswith("_watts"):
        return f"{value:.0f} W"
    if key.endswith("_joules"):
        return f"{value / 1000:.1f} kJ" if value >= 10_000 else f"{value:.0f} J"
    if key == CO2_KEY:
        return f"{value / 1000:.2f} kg" if value >= 1000 else f"{value:.3g} g"
    return f"{value:.2f}" if key.startswith("cost_") and value >= 1 else f"{value:.4g}"


def status(word: str) -> str:
    """Return a status in its color."""
    color = _COLORS.get(word)
    return f"[{color}]{word}[/]" if color else word


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of a value, ``93%†``, and its change against the baseline, ``+12%``."""

    text: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Formatted comparison, for the terminal and for pages.

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
                    value_text(key, entry.values.get(key)) + _deviation(entry, key) + _whose(entry, key),
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
    notes = [_SIMULATED_NOTE] if any(entry.simulated for entry in found.entries) else []
    marks = {_whose(entry, key) for entry in found.entries for key in metrics}
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


def comparison(found: Comparison) -> Table:
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


def experiments(found: Iterable[ExperimentInfo]) -> Table:
    """Return the table of experiments with the numbers of their runs by status."""
    made = table(">experiment", "name", ">workloads", ">runs", ">finished", ">failed", ">running", "file")
    for one in found:
        counts = (one.workloads, one.runs, one.finished, one.failed, one.running)
        made.add_row(str(one.experiment_id), escape(one.name), *map(str, counts), escape(one.source))
    return made


def runs(found: Sequence[RunInfo]) -> Table:
    """Return the table of runs with status and duration; with owners if there are several."""
    several = len({run.owner for run in found}) > 1
    noted = any(run.note for run in found)
    made = table(
        "run",
        "id",
        "name",
        *["owner"] * several,
        "status",
        ">duration",
        "started",
        "params",
        "reason",
        *["note"] * noted,
    )
    for run in found:
        label = run.full_label + (SIMULATED if run.simulated else "")
        started = run.started_at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if run.started_at else ""
        params = " ".join(f"{key}={value}" for key, value in run.params.items())
        made.add_row(
            label, run.run_id[:8], escape(run.name), *[escape(run.owner)] * several, status(run.status),
            duration(run.duration), started, escape(params), escape(run.reason or ""),
            *[escape((run.note or "").partition("\n")[0])] * noted,
        )  # fmt: skip
    if any(run.simulated for run in found):
        made.caption, made.caption_justify = _SIMULATED_NOTE, "left"
    return made


def highlights(run: RunInfo, found: Sequence[Highlight]) -> Table:
    """Return the table of a run's highlights, with times since the start of the run."""
    label = f"{run.label}{SIMULATED * run.simulated} {run.name}".rstrip()
    made = table(">from", ">to", "what", title=escape(f"{label}: {run.status}, {duration(run.duration)}"))
    for start, end, text in highlight_lines(run, found):
        made.add_row(start, end, escape(text))
    if run.simulated:
        made.caption, made.caption_justify = _SIMULATED_NOTE, "left"
    return made


def highlight_lines(run: RunInfo, found: Iterable[Highlight]) -> Iterable[tuple[str, str, str]]:
    """Yield the start, end and text of each highlight, with times since the start of the run."""
    for one in found:
        assert run.started_at is not None
        start, end = ((time - run.started_at).total_seconds() for time in (one.started_at, one.ended_at))
        yield (
            ("", "", one.text) if one.kind == "rest" else (duration(start) if start else "0 s", duration(end), one.text)
        )


def coverage(found: Iterable[Coverage]) -> Table:
    """Return the table of measured quantities."""
    made = table("quantity", "unit", "scope", ">series", "from", "meaning")
    for one in found:
        made.add_row(
            escape(one.quantity), escape(one.unit), one.scopes, str(one.series), escape(one.metrics), escape(one.help)
        )
    return made


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


def _whose(entry: Entry, key: str) -> str:
    if is_of_energy(key) and key in entry.values and entry.has_idle_energy:
        return _WITH_IDLE
    if key.startswith("gpu_"):
        return _SHARED if entry.scopes.get(key) in ("device", "host") else ""
    return _OF_HOST if entry.scopes.get(key) == "host" else ""


def _change(entry: Entry, key: str) -> str:
    change = entry.changes.get(key)
    return "" if change is None else f"{change:+.0%}"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit in ("B", "KiB") else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
