"""Pieces of Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping

__all__ = ["attributes", "code", "table"]

_ATTRIBUTES = re.compile(r"^Attributes\n-+\n(?P<body>.*)\Z", re.MULTILINE | re.DOTALL)
_ATTRIBUTE = re.compile(r"^(?P<names>\w+(?:, \w+)*)\n(?P<text>(?: {4}.*\n?|\n(?= ))+)", re.MULTILINE)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table."""
    names = list(header)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def code(words: Iterable[str]) -> str:
    """Return words as code, joined by commas."""
    return ", ".join(f"`{word}`" for word in words)


def attributes(documented: type) -> Mapping[str, str]:
    """Return the descriptions of a class's attributes, from the section ``Attributes`` of its docstring."""
    found = _ATTRIBUTES.search(inspect.getdoc(documented) or "")
    assert found is not None, documented
    return {
        name: " ".join(one["text"].split()).replace("``", "`")
        for one in _ATTRIBUTE.finditer(found["body"] + "\n")
        for name in one["names"].split(", ")
    }
