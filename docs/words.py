"""Length of sentences and table cells, page by page: `python -m docs.words [FOLDER|PAGE]…`.

The median sentence of a page has at most 18 words, and no table cell has more than 25. Code blocks do not count.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console
from rich.table import Column, Table

__all__ = ["MOST_OF_CELL", "MOST_OF_MEDIAN", "Page", "main", "measure"]

MOST_OF_MEDIAN = 18
MOST_OF_CELL = 25
_FOLDERS = ("docs/start", "docs/how-to")
_PARSER = MarkdownIt("commonmark").enable("table")
# The end of a sentence, with the quote or bracket that closes it.
_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][)\"'”]))\s+")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|No)\.$")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Page:
    """Words of each sentence and of each table cell of a page."""

    sentences: tuple[int, ...]
    cells: tuple[int, ...]

    @property
    def median(self) -> float:
        """Median number of words of a sentence."""
        return statistics.median(self.sentences or (0,))

    @property
    def longest_sentence(self) -> int:
        """Number of words of the longest sentence."""
        return max(self.sentences, default=0)

    @property
    def longest_cell(self) -> int:
        """Number of words of the longest table cell."""
        return max(self.cells, default=0)

    @property
    def fits(self) -> bool:
        """Whether sentences and cells are short enough."""
        return self.median <= MOST_OF_MEDIAN and self.longest_cell <= MOST_OF_CELL


def measure(markdown: str) -> Page:
    """Return the lengths of a page in Markdown."""
    sentences: list[int] = []
    cells: list[int] = []
    inside: str | None = None
    for token in _PARSER.parse(markdown):
        if token.type in ("td_open", "th_open", "heading_open"):
            inside = token.tag
        elif token.type in ("td_close", "th_close", "heading_close"):
            inside = None
        elif token.type == "inline" and inside in ("td", "th"):
            cells.append(_count(_text(token)))
        elif token.type == "inline" and inside is None:
            sentences += [count for sentence in _sentences(_text(token)) if (count := _count(sentence))]
    return Page(tuple(sentences), tuple(cells))


def main(words: Sequence[str]) -> int:
    """Print the lengths of pages, and return 1 if one of them does not fit, else 0."""
    table = Table(Column("page", overflow="fold"), "median", "longest", "cell", box=None)
    pages = {page: measure(page.read_text()) for word in words or _FOLDERS for page in _pages(Path(word))}
    for path, page in pages.items():
        table.add_row(
            str(path), f"{page.median:g}", f"{page.longest_sentence}", f"{page.longest_cell}",
            style=None if page.fits else "bold red",
        )  # fmt: skip
    Console().print(table)
    long = [str(path) for path, page in pages.items() if not page.fits]
    if long:
        limits = f"a median above {MOST_OF_MEDIAN} words, or a table cell above {MOST_OF_CELL}"
        Console(stderr=True).print(f"{', '.join(long)}: {limits}", soft_wrap=True)
    return bool(long)


def _pages(path: Path) -> list[Path]:
    return sorted(path.rglob("*.md")) if path.is_dir() else [path]


def _text(token: Token) -> str:
    """Return the text of a paragraph or a cell: a code span is one word, a picture none."""
    parts = []
    for child in token.children or ():
        match child.type:
            case "text":
                parts.append(child.content)
            case "code_inline":
                parts.append("code")
            case "softbreak" | "hardbreak":
                parts.append(" ")
    return "".join(parts)


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text; an abbreviation ends none."""
    begun = ""
    for part in _END.split(text):
        begun = f"{begun} {part}".strip()
        if not _ABBREVIATION.search(begun):
            yield begun
            begun = ""
    if begun:
        yield begun


def _count(text: str) -> int:
    return sum(bool(_WORD.search(word)) for word in text.split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
