"""Notices, each once, and short names of sets."""

from __future__ import annotations

from collections.abc import Iterable

from hypergauge.sql.queries.notices import Notice

__all__ = ["distinct", "shortened"]

# Parts of the name of a set that a table shows; as in the SQL function `notice_set`.
_MOST_PARTS = 3
_PLUS = " + "


def shortened(name: str) -> str:
    """Return the name of a set of runs, without most of its parts if there are many."""
    parts = name.split(_PLUS)
    if len(parts) <= _MOST_PARTS:
        return name
    return f"{_PLUS.join(parts[: _MOST_PARTS - 1])} and {len(parts) - _MOST_PARTS + 1} more"


def distinct(notices: Iterable[Notice]) -> list[Notice]:
    """Return the notices with distinct texts."""
    found: dict[str, Notice] = {}
    for one in notices:
        found.setdefault(one.text, one)
    return list(found.values())
