"""Tables that fit the terminal: long texts wrap, and the least important columns are left out by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hypergauge.core.listing import listed

__all__ = ["Field", "fitted"]

# Usual width of a text that wraps, at least; and characters between two columns and beside all.
_NARROW, _BETWEEN, _BESIDE = 18, 3, 2
_MOST_NAMED = 8
# Longest text of a cell that wraps. Longer ones, such as a command with a whole prompt, are cut; `--json` has them.
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Field:
    """Column of a table; a title that begins with ``>`` is right-aligned.

    Attributes
    ----------
    cells
        A cell for each line, as markup. A cell may have lines of its own.
    rank
        Importance: of the columns that may be left out, those with the highest rank are first. ``None`` is never left out.
    wraps
        Whether its cells are texts of any length, which wrap. Other cells never do.
    least
        Width of a text that wraps, at least.
    """

    title: str
    cells: Sequence[str]
    rank: int | None = None
    wraps: bool = False
    least: int = _NARROW

    @property
    def widths(self) -> tuple[int, int]:
        """Least width, and the width without wrapped cells."""
        title = self.title.removeprefix(">")
        lines = [line for cell in self.cells for line in Text.from_markup(cell).plain.splitlines()]
        longest = max(map(cell_len, lines), default=0)
        word = max(map(cell_len, re.split(r"[\s]+", title)), default=0)
        return max(word, min(longest, self.least) if self.wraps else longest), max(cell_len(title), longest)


def fitted(
    fields: Iterable[Field], width: int | None = None, *, title: str | None = None, notes: Sequence[str] = (),
    further: str = "--json has all.",
) -> Table:  # fmt: skip
    """Return a table without empty columns, of at most `width` characters if that is possible.

    Parameters
    ----------
    notes
        Notes below the table; one on the hidden columns follows.
    further
        What shows the hidden columns.
    """
    shown = [_cut(one) for one in fields if any(one.cells) or one.rank is None]
    hidden: list[str] = []
    while width is not None and _total(one.widths[0] for one in shown) > width:
        optional = [one for one in shown if one.rank is not None]
        if not optional:
            break
        last = max(optional, key=lambda one: one.rank or 0)
        hidden.append(last.title.removeprefix(">"))
        shown.remove(last)
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for one, space in zip(shown, _spaces(shown, width), strict=True):
        justify: Literal["left", "right"] = "right" if one.title.startswith(">") else "left"
        made.add_column(escape(one.title.removeprefix(">")), justify=justify, overflow="fold", width=space)
    for line in zip(*(one.cells for one in shown), strict=True):
        made.add_row(*line)
    below = [*notes, *([f"Hidden: {listed(hidden[::-1], _MOST_NAMED)}. {further}"] if hidden else ())]
    if below:
        made.caption, made.caption_justify = escape("\n".join(below)), "left"
    return made


def _cut(one: Field) -> Field:
    """Return a field whose cells are no longer than a reader reads."""
    if not one.wraps or all(len(cell) <= _LONGEST for cell in one.cells):
        return one
    texts = [Text.from_markup(cell) for cell in one.cells]
    cells = [
        cell if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].markup}…"
        for cell, text in zip(one.cells, texts, strict=True)
    ]
    return replace(one, cells=cells)


def _total(widths: Iterable[int]) -> int:
    found = list(widths)
    return sum(found) + _BETWEEN * (len(found) - 1) + _BESIDE


def _spaces(shown: Sequence[Field], width: int | None) -> list[int]:
    """Return the width of each column; the spare characters go where most are wanting."""
    spaces, wanted = [one.widths[0] for one in shown], [one.widths[1] for one in shown]
    if width is None:
        return wanted
    for _ in range(max(0, width - _total(spaces))):
        wants = [want - space for want, space in zip(wanted, spaces, strict=True)]
        if max(wants, default=0) <= 0:
            break
        spaces[wants.index(max(wants))] += 1
    return spaces
