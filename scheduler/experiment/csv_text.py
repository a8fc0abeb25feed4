"""Scanner of CSV text that keeps the line, column, quotes and padding of each cell.

Error messages name a cell's position, and edits replace one cell; the standard library's reader returns only values.
The scanner accepts what ``csv.reader(skipinitialspace=True, strict=True)`` accepts (a test compares the two). It also
allows blanks after a closing quote.
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
    """Error at a line and column, both counted from 1; the column counts characters."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell of a record.

    Attributes
    ----------
    text
        Content without quotes and padding.
    line, column
        Position of the content, counted from 1.
    start
        Offset of the raw text in the file.
    raw
        Raw text between the two commas.
    """

    text: str
    line: int
    column: int
    start: int
    raw: str

    @property
    def end(self) -> int:
        """Offset of the comma or line end after the cell."""
        return self.start + len(self.raw)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of the characters from `start` to `end` with `text`."""

    start: int
    end: int
    text: str


def scan(text: str, problems: list[Problem]) -> Iterator[tuple[Cell, ...]]:
    """Yield the cells of each record that is not blank; append errors to `problems`."""
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
        # Spreadsheets quote padded cells, so blanks inside the quotes are padding too.
        cell = Cell(quoted[1].replace('""', '"').strip(), line, column, start, quoted[0] + rest)
        if rest:
            message = f"{rest!r} follows the closing quote; write a quote inside a quoted cell twice"
            return cell, Problem(line, column, message)
        return cell, None
    raw = _plain(text, start)
    padding = len(raw) - len(raw.lstrip()) if raw.strip() else 0
    return Cell(raw.strip(), line, start + padding - line_start + 1, start, raw), None


def _plain(text: str, start: int) -> str:
    plain = _PLAIN.match(text, start)
    return plain[0] if plain else ""


def edit(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with non-overlapping `edits` applied; edits at the same offset apply in the given order."""
    pieces, offset = [], 0
    for change in sorted(edits, key=lambda change: change.start):
        pieces += [text[offset : change.start], change.text]
        offset = change.end
    return "".join([*pieces, text[offset:]])


def replaced(cell: Cell, text: str, alignment: str) -> Edit:
    """Return the edit that sets `cell` to `text` and keeps its quotes, alignment and, if the text fits, its width.

    `alignment` is the raw header cell of the column; an empty cell takes its alignment.
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
