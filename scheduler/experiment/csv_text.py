"""CSV text as cells with line and column, so that one cell can be named or replaced.

The standard library's reader gives values, but neither the place of a cell nor how it was quoted and padded; both are
needed here, hence the scanner. It reads what ``csv.reader(skipinitialspace=True, strict=True)`` reads (a test compares
the two), and allows blanks behind a closing quote besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Cell", "Edit", "Problem", "edit", "replaced", "scan"]

_BYTE_ORDER_MARK = "\ufeff"
_BLANKS = " \t"
_QUOTED = re.compile(r'[ \t]*"((?:[^"]|"")*+)"[ \t]*+')
_OPENING = re.compile(r'[ \t]*"')
_PLAIN = re.compile(r"[^,\r\n]*+")
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a line and a column, both counted from 1, the column in characters."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its text without quotes and padding, where that begins, and the raw text between the two commas."""

    text: str
    line: int
    column: int
    start: int
    raw: str

    @property
    def end(self) -> int:
        """Offset of the comma or line end behind the cell."""
        return self.start + len(self.raw)


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str


def scan(text: str, problems: list[Problem]) -> Iterator[tuple[Cell, ...]]:
    """Yield the cells of each record that is not blank throughout; append what is wrong to `problems`."""
    cells: list[Cell] = []
    line = 1
    offset = line_start = len(text) - len(text.removeprefix(_BYTE_ORDER_MARK))
    while True:
        cell, problem = _scan_cell(text, offset, line, line_start)
        if problem:
            problems.append(problem)
        cells.append(cell)
        for line_end in _LINE_END.finditer(text, offset, cell.end):
            line, line_start = line + 1, line_end.end()
        offset = cell.end
        if text.startswith(",", offset):
            offset += 1
            continue
        if any(cell.text for cell in cells):
            yield tuple(cells)
        line_end_here = _LINE_END.match(text, offset)
        if not line_end_here:
            return
        cells = []
        offset = line_start = line_end_here.end()
        line += 1


def _scan_cell(text: str, start: int, line: int, line_start: int) -> tuple[Cell, Problem | None]:
    opening = _OPENING.match(text, start)
    if opening:
        column = opening.end() - line_start
        quoted = _QUOTED.match(text, start)
        if not quoted:
            problem = Problem(line, column, "the quote that opens here is never closed")
            return Cell(text[opening.end() :], line, column, start, text[start:]), problem
        rest = _plain(text, quoted.end())
        # Blanks within the quotes are padding as well: spreadsheets quote a padded cell so.
        cell = Cell(quoted[1].replace('""', '"').strip(), line, column, start, quoted[0] + rest)
        if rest:
            message = f"{rest!r} stands behind the closing quote; a quote within a quoted cell is written twice"
            return cell, Problem(line, column, message)
        return cell, None
    raw = _plain(text, start)
    padding = len(raw) - len(raw.lstrip()) if raw.strip() else 0
    return Cell(raw.strip(), line, start + padding - line_start + 1, start, raw), None


def _plain(text: str, start: int) -> str:
    plain = _PLAIN.match(text, start)
    return plain[0] if plain else ""


def edit(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with the `edits`, which do not overlap, applied; edits at one place apply in the order given."""
    pieces, offset = [], 0
    for change in sorted(edits, key=lambda change: change.start):
        pieces += [text[offset : change.start], change.text]
        offset = change.end
    return "".join([*pieces, text[offset:]])


def replaced(cell: Cell, text: str, alignment: str) -> Edit:
    """Return the edit that gives `cell` the value `text` and keeps its quotes, its alignment and, where it can, its width.

    `alignment` is the raw text of the column's head: an empty cell is aligned as that is.
    """
    bare = cell.raw.strip(_BLANKS)
    quoted = bare.startswith('"') or any(character in text for character in ',"\r\n') or text != text.strip()
    value = f'"{text.replace(chr(34), chr(34) * 2)}"' if quoted else text
    if cell.raw == bare:
        return Edit(cell.start, cell.end, value)
    model = cell.raw if bare else alignment
    leading = model[: len(model) - len(model.lstrip(_BLANKS))]
    if model.endswith(tuple(_BLANKS)):
        value = (leading + value).ljust(len(cell.raw))
    else:
        value = (leading[:1] + value).rjust(len(cell.raw))
    return Edit(cell.start, cell.end, value)
