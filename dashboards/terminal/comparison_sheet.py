"""Formatted comparison, for tables in the terminal, in text and on pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.dashboards.terminal.formatting import SIMULATED, SIMULATED_NOTE, duration, value_text
from hypergauge.insight.comparison.columns import (
    CO2_KEY,
    COLUMNS,
    DATA_WAIT,
    ENERGY_KEY,
    ENERGY_TO_TARGET,
    EPOCH_ENERGY,
    FLOPS_RATE,
    MFU,
    SAMPLE_ENERGY,
    SAMPLE_RATE,
    SAMPLES_PER_JOULE,
    STEP_ENERGY,
    STEP_RATE,
    TIME_TO_TARGET,
    TOKEN_RATE,
    TOKENS_PER_JOULE,
    TOTAL_ENERGY,
    is_of_energy,
    is_of_total,
)
from hypergauge.insight.comparison.software import relevance
from hypergauge.sql.runs.selection import with_sharing

if TYPE_CHECKING:
    from hypergauge.insight.comparison.comparison import Comparison, Entry

__all__ = ["Cell", "Heading", "Sheet", "sheet"]

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
    "cpu_energy_joules": "CPU energy",
    "dram_energy_joules": "memory energy",
    "system_energy_joules": "system energy",
    TOTAL_ENERGY: "energy",
    EPOCH_ENERGY: "energy per epoch",
    STEP_ENERGY: "energy per step",
    SAMPLE_ENERGY: "energy per sample",
    SAMPLES_PER_JOULE: "samples/J",
    TOKENS_PER_JOULE: "tokens/J",
    STEP_RATE: "steps/s",
    SAMPLE_RATE: "samples/s",
    TOKEN_RATE: "tokens/s",
    FLOPS_RATE: "model FLOPS",
    DATA_WAIT: "data wait",
    MFU: "MFU",
    CO2_KEY: "CO₂",
}
# Columns by importance: narrow tables hide the last ones first.
_IMPORTANT = (
    "duration_seconds", "makespan_seconds", TIME_TO_TARGET, ENERGY_TO_TARGET, ENERGY_KEY, TOTAL_ENERGY, "gpu_sm_active",
    "software", "cost", "gpu_utilization", "gpu_peak_memory_bytes", "gpu_power_watts", "cpu_utilization", "peak_memory_bytes",
    SAMPLE_RATE, TOKEN_RATE, MFU, DATA_WAIT,
    EPOCH_ENERGY, SAMPLE_ENERGY, STEP_ENERGY, "cpu_energy_joules", "dram_energy_joules", "system_energy_joules",
    CO2_KEY, "further software", "cpu_seconds", "disk_read_bytes", "disk_write_bytes",
)  # fmt: skip
_RATES = (STEP_RATE, SAMPLE_RATE, TOKEN_RATE, FLOPS_RATE, DATA_WAIT, MFU)
# Columns by request: others tell the same.
_ON_REQUEST = (STEP_RATE, FLOPS_RATE, SAMPLES_PER_JOULE, TOKENS_PER_JOULE)
_PARTS = {"gpu": "GPUs", "cpu": "CPU packages", "dram": "memory", "system": "the whole system"}
# Software metrics that a table has by default, and those of them that a narrow one keeps.
_MOST_SOFTWARE, _MAIN_SOFTWARE = 6, 2
# Suffixes of a value.
_SHARED = "†"
# One that lacks a part, or has one too much.
_WITH_IDLE = _INCOMPLETE = "‡"
_OF_HOST = "§"
# Prefix of a change.
_OTHER_WORK = "≠ "


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of a value, ``93%†``, and its change against the baseline: ``+12%``, or ``≠ +12%`` if that did other work."""

    text: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """Heading of a column: its key in the comparison, its title, and its rank by importance, 0 for the first."""

    key: str
    title: str
    rank: int = 0


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
    hidden
        Titles of columns that were left out.
    part
        Part of each run that the values cover, if not the whole run.
    """

    by: str
    columns: tuple[Heading, ...]
    lines: tuple[tuple[str, str, str, tuple[Cell, ...]], ...]
    notes: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    part: str | None = None


def sheet(found: Comparison, metrics: Sequence[str] = (), *, everything: bool = False) -> Sheet:
    """Return a formatted comparison.

    Parameters
    ----------
    metrics
        Keys, titles or quantities of the columns, in this order; by default all, and the most relevant software metrics.
    everything
        Whether to include all software metrics.

    Raises
    ------
    BadRequest
        The comparison has no such metric.
    """
    keys = _keys(found)
    software = sorted(dict.fromkeys(key for entry in found.entries for key in entry.software), key=relevance)
    if metrics:
        names = _names(found, dict.fromkeys(key for entry in found.entries for key in entry.values), software)
        measured = dict.fromkeys(quantity for entry in found.entries for quantity in entry.quantities)
        there = dict.fromkeys((*(_heading(found, key) for key in keys), *software, *measured))
        chosen = list(dict.fromkeys(_chosen(name, names, there) for name in metrics))
        for name, key in ((name, names[name]) for name in metrics):
            if f"logged_{name}" in software and all(entry.value(key) is None for entry in found.entries):
                raise BadRequest(f"nothing measured {name!r} of these runs; what they logged is 'logged_{name}'")
        shown, hidden = chosen, []
    else:
        most = len(software) if everything else _MOST_SOFTWARE
        keys = [key for key in _distinct(found, keys) if everything or key not in _ON_REQUEST]
        shown, hidden = [*keys, *software[:most]], software[most:]
    attempts = [Heading("attempts", "attempts")] if found.by == "row" else []
    titles = {key: key if key in software else _heading(found, key) for key in shown}
    columns = (*attempts, *(Heading(key, titles[key], _rank(key, software)) for key in shown))
    lines = []
    for entry in found.entries:
        label = entry.label + (SIMULATED if entry.simulated else "")
        label = f"{label} (baseline)" if entry.label == found.baseline else label
        cells = (*(Cell(_attempts(entry)) for _ in attempts), *(_cell(entry, key, software) for key in shown))
        lines.append((label, with_sharing(entry.name, entry.runs), entry.status, cells))
    notes = _notes(found.entries, [key for key in shown if key not in software])
    return Sheet(found.by, columns, tuple(lines), tuple(notes), tuple(hidden), _part(found))


def _keys(found: Comparison) -> list[str]:
    """Return the columns with values. Columns of zeros would take the space of columns that matter."""
    keys = dict.fromkeys(key for entry in found.entries for key in entry.values)
    return [key for key in keys if any(entry.values.get(key, 0) for entry in found.entries)]


def _distinct(found: Comparison, keys: Iterable[str]) -> list[str]:
    """Return the columns without a total that repeats the energy of the GPUs."""
    repeats = all(entry.energy_parts in ((), ("gpu",)) for entry in found.entries)
    return [key for key in keys if not (repeats and key == TOTAL_ENERGY)]


def _names(found: Comparison, keys: Iterable[str], software: Iterable[str]) -> dict[str, str]:
    """Return the column of each name that a user may give: its key, its title, its quantity."""
    names = {one.quantity: one.key for one in reversed(COLUMNS)}
    keys = (*(one.key for one in COLUMNS), *_RATES, *keys)
    return names | {_heading(found, key): key for key in keys} | {key: key for key in (*keys, *software)}


def _chosen(name: str, names: dict[str, str], there: Iterable[str]) -> str:
    if (key := names.get(name)) is None:
        near = did_you_mean(name, [*names, *there], f" (one of: {', '.join(there)})")
        raise BadRequest(f"these runs have no metric {name!r}{near}")
    return key


def _rank(key: str, software: Sequence[str]) -> int:
    if key in software:
        key = "software" if software.index(key) < _MAIN_SOFTWARE else "further software"
    elif key.startswith("cost_"):
        key = "cost"
    return _IMPORTANT.index(key) if key in _IMPORTANT else len(_IMPORTANT)


def _cell(entry: Entry, key: str, software: Sequence[str]) -> Cell:
    if key in software:
        value = entry.software.get(key)
        diverged = value is None and key in entry.software
        return Cell("NaN" if diverged else value_text(key, value) + _deviation(entry, key), _change(entry, key))
    return Cell(
        value_text(key, entry.values.get(key)) + _deviation(entry, key) + _scope_mark(entry, key), _change(entry, key)
    )


def _notes(entries: Sequence[Entry], keys: Sequence[str]) -> list[str]:
    notes = [SIMULATED_NOTE] if any(entry.simulated for entry in entries) else []
    marks = "".join(_scope_mark(entry, key) for entry in entries for key in keys)
    if _SHARED in marks:
        notes.append(f"{_SHARED} of the whole GPU or shared with other runs: not the run's own")
    if any(is_of_energy(key) and key in entry.values and entry.has_idle_energy for entry in entries for key in keys):
        notes.append(f"{_WITH_IDLE} includes idle energy of its GPUs")
    if incomplete := {_TITLES.get(key, key): None for key in keys for entry in entries if key in entry.incomplete}:
        notes.append(
            f"{_INCOMPLETE} measured for less than 90% of the time, or by fewer than five readings: {', '.join(incomplete)}"
        )
    kinds = {entry.energy_parts for entry in entries if any(is_of_total(key) and key in entry.values for key in keys)}
    until = {entry.energy_parts for entry in entries if ENERGY_TO_TARGET in keys and ENERGY_TO_TARGET in entry.values}
    if len(until) == 1:  # else it is that of the GPUs
        kinds |= until
    if kinds - {("gpu",)}:
        notes.append(_energy_note(entries))
    if _OF_HOST in marks:
        notes.append(f"{_OF_HOST} of the whole host: not the run's own")
    if any(entry.of_other_work for entry in entries):
        notes.append(f"{_OTHER_WORK}against other work: neither better nor worse")
    return notes


def _energy_note(entries: Sequence[Entry]) -> str:
    """Return the parts of the totals, by the entries that have them."""
    of: dict[str, list[str]] = {}
    for entry in entries:
        if entry.energy_parts:
            of.setdefault(", ".join(_PARTS[part] for part in entry.energy_parts), []).append(entry.label)
    if len(of) == 1:
        return f"energy is that of {next(iter(of))}"
    each = "; ".join(f"{parts} in {', '.join(labels)}" for parts, labels in of.items())
    return f"energy has different parts, and is not compared between them: {each}"


def _part(found: Comparison) -> str | None:
    part = found.window
    if part is None:
        return None
    if part.part:
        return f"over a part of each run: {part.part.words}"
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
    incomplete = _INCOMPLETE if key in entry.incomplete else ""
    if is_of_energy(key) and key in entry.values and entry.has_idle_energy:
        return _WITH_IDLE
    if key.startswith("gpu_") or key == MFU:
        return (_SHARED if entry.scopes.get(key) in ("device", "host") else "") + incomplete
    return (_OF_HOST if entry.scopes.get(key) == "host" else "") + incomplete


def _change(entry: Entry, key: str) -> str:
    change = entry.changes.get(key)
    return "" if change is None else f"{_OTHER_WORK * (key in entry.of_other_work)}{change:+.0%}"
