"""Table of an experiment file: header, records and write-back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from hypergauge.core.errors import nearest
from hypergauge.scheduler.experiment import csv_text
from hypergauge.scheduler.experiment.columns import COLUMNS, REQUIRED, WRITTEN_BACK
from hypergauge.scheduler.experiment.csv_text import Cell, Edit, Problem

__all__ = ["Table", "identity"]

_CANONICAL = {name.casefold(): name for name in COLUMNS}
# Columns checked for typos. The others are required anyway, or resemble names of user columns: Notes, Runs, Date, Mode,
# State.
_GUARDED = tuple(name for name in COLUMNS if name not in ("Name", "Status", "Run", "File", "Model", "Data"))
# Long spelling of a column, by its stem.
_LONG = {"parameter": "Params"}
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True, slots=True)
class Table:
    """Header, records and index of each column; known columns by their spelling in `COLUMNS`."""

    header: tuple[Cell, ...]
    records: tuple[tuple[Cell, ...], ...]
    columns: Mapping[str, int]

    @classmethod
    def parse(cls, text: str, problems: list[Problem]) -> Table | None:
        """Parse `text`; return ``None`` if it is blank, and append quoting errors to `problems`."""
        records = tuple(csv_text.scan(text, problems))
        if not records:
            return None
        columns: dict[str, int] = {}
        for index, cell in enumerate(records[0]):
            columns.setdefault(_CANONICAL.get(cell.text.casefold(), cell.text), index)
        return cls(records[0], records[1:], columns)

    def header_problems(self) -> Iterable[Problem]:
        """Yield the errors of the header: missing, duplicate and misspelt columns."""
        seen: set[str] = set()
        for cell in self.header:
            name = cell.text.casefold()
            if name and name in seen:
                yield Problem(cell.line, cell.column, f"there is a column {cell.text!r} already")
            seen.add(name)
        missing = [name for name in REQUIRED if name not in self.columns]
        if missing and (separator := self._separator()):
            what = f"the columns are separated by {separator}: separate them by commas"
            yield Problem(self.header[0].line, self.header[0].column, what)
            return
        for cell in self.unknown:
            near = _near_miss(cell.text)
            if near in self.columns:
                what = f"{cell.text!r} is too similar to the column {near!r}, which also exists: remove or rename it"
                yield Problem(cell.line, cell.column, what)
            elif near and near not in missing:
                yield Problem(cell.line, cell.column, f"there is no column {cell.text!r} (did you mean {near!r}?)")
        for name in missing:
            yield self._missing(name, f"the column {name!r} is missing")
        if not {"File", "Model"} & self.columns.keys():
            yield self._missing("File", "a column 'File' or 'Model' is missing")

    @property
    def unknown(self) -> tuple[Cell, ...]:
        """Named columns that the scheduler ignores."""
        return tuple(cell for cell in self.header if cell.text and cell.text.casefold() not in _CANONICAL)

    def _separator(self) -> str | None:
        """Return what separates the columns if it is no comma, as in files of spreadsheets in many languages."""
        if len(self.header) > 1:
            return None
        for character, name in _SEPARATORS.items():
            names = {name.strip().strip('"').casefold() for name in self.header[0].text.split(character)}
            if {name.casefold() for name in REQUIRED} <= names:
                return name
        return None

    def _missing(self, name: str, message: str) -> Problem:
        unknown = {cell.text: cell for cell in self.unknown}
        near = nearest(name, unknown)
        cell = unknown[near] if near else self.header[0]
        hint = f" (rename {near!r}?)" if near else ""
        names = ", ".join(cell.text for cell in self.header)
        return Problem(cell.line, cell.column, f"{message}; the header has {names}{hint}")

    def text(self, index: int, column: str) -> str:
        """Return the text of a record's cell; empty if the column does not exist."""
        position = self.columns.get(column)
        return "" if position is None else self.records[index][position].text

    def identity_of(self, index: int) -> tuple[str, ...]:
        """Return the identity of a record; see `identity`."""
        record = self.records[index]
        return identity({name: record[position] for name, position in self.columns.items()})

    def write_back(self, values: Mapping[int, tuple[str, str]]) -> Iterable[Edit]:
        """Yield the edits that write `values`, ``(status, run)`` by the record's index."""
        # Existing columns first: an append after an empty last cell has the same offset as that cell's edit.
        for column, name in sorted(enumerate(WRITTEN_BACK), key=lambda one: one[1] not in self.columns):
            position = self.columns.get(name)
            if position is not None:
                for index, value in values.items():
                    cell = self.records[index][position]
                    if cell.text != value[column]:
                        yield csv_text.replaced(cell, value[column], self.header[position].raw)
                continue
            yield Edit(self.header[-1].end, self.header[-1].end, f",{name}")
            for index, record in enumerate(self.records):
                if len(record) == len(self.header):
                    text = values[index][column] if index in values else ""
                    yield Edit(record[-1].end, record[-1].end, f",{text}")


def identity(cells: Mapping[str, Cell]) -> tuple[str, ...]:
    """Return the user's content of a row: all known columns except those that the scheduler writes back."""
    names = (name for name in COLUMNS if name not in WRITTEN_BACK)
    return tuple(cells[name].text if name in cells else "" for name in names)


def _near_miss(text: str) -> str | None:
    """Return the known column within one letter of `text` (added, removed, changed or moved), singular or plural."""
    word = _stem(text)
    return _LONG.get(word) or next((name for name in _GUARDED if _slips(word, _stem(name)) <= 1), None)


def _stem(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum()).removesuffix("s")


def _slips(one: str, other: str) -> int:
    common = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return max(len(one), len(other)) - sum(block.size for block in common)
