"""Table of a comparison that fits the terminal, and the same as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from hypergauge.core.listing import listed
from hypergauge.dashboards.terminal.tables import status, table
from hypergauge.insight.comparison.columns import ENERGY_KEY, PARTS, is_of_total

if TYPE_CHECKING:
    from hypergauge.dashboards.terminal.comparison_sheet import Cell, Sheet
    from hypergauge.insight.comparison.comparison import Comparison

__all__ = ["comparison_table", "csv_text", "markdown", "natural_width"]

_MARKUP = re.compile(r"[\\|*]")
# Titles that the note on hidden columns names.
_MOST_NAMED = 8


def comparison_table(read: Sheet, width: int | None = None, *, hide: bool = True) -> Table:
    """Return the table of a comparison; changes against the baseline follow the values.

    Parameters
    ----------
    width
        Largest width in characters; ``None`` for none. A wider table has a row for each metric instead of each run, if that
        fits; else the least important columns are left out.
    hide
        Whether columns may be left out.
    """
    every = range(len(read.columns))
    made, shown = _across(read, every), list(every)
    if width is not None and natural_width(made) > width:
        turned = [_down(read), _down(read, separator="\n")]
        if fitting := [one for one in turned if natural_width(one) <= width]:
            made = fitting[0]
        elif hide:
            for index in sorted(every, key=lambda at: read.columns[at].rank, reverse=True)[:-1]:
                shown.remove(index)
                made = _across(read, shown)
                if natural_width(made) <= width:
                    break
    hidden = [*(column.title for at, column in enumerate(read.columns) if at not in shown), *read.hidden]
    if notes := [*read.notes, *_hidden_note(hidden)]:
        made.caption, made.caption_justify = escape("\n".join(notes)), "left"
    return made


def natural_width(made: Table) -> int:
    """Return the width that a table needs without wrapped cells."""
    endless = Console(width=100_000, file=io.StringIO())
    return Measurement.get(endless, endless.options, made).maximum


def markdown(read: Sheet, notices: Iterable[str] = ()) -> str:
    """Return a comparison as a table of Markdown, with its notes and the notices below."""
    headings = [read.by, "name", "status", *(column.title for column in read.columns)]
    rows = [
        [label, name, state, *(_plain(cell) for cell in cells)]
        for label, name, state, cells in read.lines
    ]  # fmt: skip
    rule = ["---"] * 3 + ["---:"] * len(read.columns)
    lines = ["| " + " | ".join(map(_escaped, row)) + " |" for row in (headings, rule, *rows)]
    notes = [*([read.part] if read.part else ()), *read.notes, *_hidden_note(read.hidden), *notices]
    return "\n".join([*lines, "", *(f"- {_escaped(note)}" for note in notes)] if notes else lines)


def csv_text(found: Comparison, read: Sheet) -> str:
    """Return a comparison as CSV: values in SI units, and relative changes against the baseline if there is one.

    At the end each measured value has its scope, which shows whether it is the run's own, and energy has its methods and parts.
    """
    keys = [column.key for column in read.columns if column.key != "attempts"]
    changes = keys if found.baseline is not None else []
    measured = [key for key in keys if any(key in entry.scopes for entry in found.entries)]
    energy = [
        *(["gpu_energy_method"] if ENERGY_KEY in measured else []),
        *(["host_energy_method"] if any(key in PARTS for key in measured if key != ENERGY_KEY) else []),
        *(["energy_parts"] if any(map(is_of_total, keys)) else []),
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    more = (*(f"change_{key}" for key in changes), *(f"scope_{key}" for key in measured), *energy)
    writer.writerow([found.by, "name", "status", "simulated", *keys, *more])
    for entry in found.entries:
        values = [entry.value(key) for key in keys]
        changed = [entry.changes.get(key) for key in changes]
        scopes = [entry.scopes.get(key) for key in measured]
        of_energy = {
            "gpu_energy_method": entry.energy_method,
            "host_energy_method": entry.host_energy_method,
            "energy_parts": "+".join(entry.energy_parts),
        }
        methods = [of_energy[name] for name in energy]
        head = [entry.label, entry.name, entry.status, str(entry.simulated).lower()]
        writer.writerow([*head, *values, *changed, *scopes, *methods])
    return text.getvalue()


def _across(read: Sheet, shown: Sequence[int]) -> Table:
    """Return a table with a row for each entry."""
    columns = (f">{escape(read.columns[at].title)}" for at in shown)
    made = table(read.by, "name", "status", *columns, title=read.part and escape(read.part))
    for label, name, state, cells in read.lines:
        made.add_row(label, escape(name), status(state), *(_text(cells[at]) for at in shown))
    return made


def _down(read: Sheet, separator: str = " ") -> Table:
    """Return a table with a column for each entry, and the `separator` between a value and its change."""
    labels = (f">{escape(label.replace(' (baseline)', f'{separator}(baseline)'))}" for label, *_ in read.lines)
    made = table(read.by, *labels, title=read.part and escape(read.part))
    made.add_row("name", *(escape(name) for _, name, _, _ in read.lines))
    made.add_row("status", *(status(state) for _, _, state, _ in read.lines))
    for at, column in enumerate(read.columns):
        made.add_row(escape(column.title), *(_text(cells[at], separator) for *_, cells in read.lines))
    return made


def _text(cell: Cell, separator: str = " ") -> str:
    return escape(cell.text) + (f"{separator}[dim]({cell.change})[/]" if cell.change else "")


def _plain(cell: Cell) -> str:
    return cell.text + (f" ({cell.change})" if cell.change else "")


def _escaped(text: str) -> str:
    """Return a text without markup for Markdown."""
    return _MARKUP.sub(r"\\\g<0>", text)


def _hidden_note(hidden: Sequence[str]) -> list[str]:
    if not hidden:
        return []
    return [f"Hidden: {listed(hidden, _MOST_NAMED)}. --wide shows all, -m chooses."]
