"""Header and records of an experiment file, and how its cells are written back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from hypergauge.scheduler.experiment import csv_text, user_file
from hypergauge.scheduler.experiment.csv_text import Cell, Edit, Problem

__all__ = ["COLUMNS", "Table", "identity"]

COLUMNS = (
    "Experiment",
    "Workload",
    "Name",
    "Status",
    "Run",
    "Devices",
    "Collocation",
    "Environment",
    "File",
    "Model",
    "Data",
    "Listeners",
    "Params",
    "Slurm",
    "Actions",
)
_REQUIRED = ("Experiment", "Workload")
_WRITTEN_BACK = ("Status", "Run")
_CANONICAL = {name.casefold(): name for name in COLUMNS}
# A slip in one of the others is noticed anyway, or it has neighbours that people use: Notes, Runs, Date, Mode, State.
_GUARDED = tuple(name for name in COLUMNS if name not in ("Name", "Status", "Run", "File", "Model", "Data"))
# What `Params` is short for.
_LONG = {"parameter": "Params"}


@dataclass(frozen=True, slots=True)
class Table:
    """The header, the records below it, and the index of each column; those of `COLUMNS` go by that spelling."""

    header: tuple[Cell, ...]
    records: tuple[tuple[Cell, ...], ...]
    columns: Mapping[str, int]

    @classmethod
    def parse(cls, text: str, problems: list[Problem]) -> Table | None:
        """Read `text`, ``None`` where it is blank; append what is wrong with its quotes to `problems`."""
        records = tuple(csv_text.scan(text, problems))
        if not records:
            return None
        columns: dict[str, int] = {}
        for index, cell in enumerate(records[0]):
            columns.setdefault(_CANONICAL.get(cell.text.casefold(), cell.text), index)
        return cls(records[0], records[1:], columns)

    def header_problems(self) -> Iterable[Problem]:
        """Yield what keeps the columns from being read: one that is missing, or is there twice."""
        seen: set[str] = set()
        for cell in self.header:
            name = cell.text.casefold()
            if name and name in seen:
                yield Problem(cell.line, cell.column, f"there is a column {cell.text!r} already")
            seen.add(name)
        missing = [name for name in _REQUIRED if name not in self.columns]
        for cell in self.unknown:
            near = _near_miss(cell.text)
            if near in self.columns:
                what = f"{cell.text!r} is too near to the column {near!r}, which is there as well: leave it out or rename it"
                yield Problem(cell.line, cell.column, what)
            elif near and near not in missing:
                yield Problem(cell.line, cell.column, f"there is no column {cell.text!r} (did you mean {near!r}?)")
        for name in missing:
            yield self._missing(name, f"the column {name!r} is missing")
        if not {"File", "Model"} & self.columns.keys():
            yield self._missing("File", "a column 'File' or 'Model' is missing")

    @property
    def unknown(self) -> tuple[Cell, ...]:
        """The columns that mean nothing here; those without a name are none."""
        return tuple(cell for cell in self.header if cell.text and cell.text.casefold() not in _CANONICAL)

    def _missing(self, name: str, message: str) -> Problem:
        strangers = {cell.text: cell for cell in self.unknown}
        near = user_file.nearest(name, strangers)
        place = strangers[near] if near else self.header[0]
        hint = f" (did you write {near!r} for it?)" if near else ""
        names = ", ".join(cell.text for cell in self.header)
        return Problem(place.line, place.column, f"{message}; the header has {names}{hint}")

    def text(self, index: int, column: str) -> str:
        """Return the text of a record's cell; empty where there is no such column."""
        position = self.columns.get(column)
        return "" if position is None else self.records[index][position].text

    def identity_of(self, index: int) -> tuple[str, ...]:
        """Return `identity` of a record."""
        record = self.records[index]
        return identity({name: record[position] for name, position in self.columns.items()})

    def write_back(self, values: Mapping[int, tuple[str, str]]) -> Iterable[Edit]:
        """Yield the edits that write `values`, ``(status, run)`` by the record's index."""
        # Those that are there first: where one is empty and the last of its row, what is appended has its place behind.
        for column, name in sorted(enumerate(_WRITTEN_BACK), key=lambda one: one[1] not in self.columns):
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
    """Return what the user has written in a row: all that we know a meaning of and do not write back ourselves."""
    names = (name for name in COLUMNS if name not in _WRITTEN_BACK)
    return tuple(cells[name].text if name in cells else "" for name in names)


def _near_miss(text: str) -> str | None:
    """Return the column that is meant by `text`: one letter more, less, changed or moved, in the singular or plural."""
    word = _stem(text)
    return _LONG.get(word) or next((name for name in _GUARDED if _slips(word, _stem(name)) <= 1), None)


def _stem(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum()).removesuffix("s")


def _slips(one: str, other: str) -> int:
    common = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return max(len(one), len(other)) - sum(block.size for block in common)
