"""Notices as texts, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypergauge.sql.queries.notices import Notice

__all__ = ["Note", "merged", "shortened"]

# Parts of the name of a set that a text repeats.
_MOST_PARTS = 3
_PLUS = " + "


@dataclass(frozen=True, slots=True)
class Note:
    """Text of a notice with its code and severity."""

    code: str
    text: str
    severity: str


def shortened(name: str) -> str:
    """Return the name of a set of runs, without most of its parts if there are many."""
    parts = name.split(_PLUS)
    if len(parts) <= _MOST_PARTS:
        return name
    return f"{_PLUS.join(parts[: _MOST_PARTS - 1])} and {len(parts) - _MOST_PARTS + 1} more"


def merged(notices: Sequence[Notice]) -> list[Note]:
    """Return the distinct notices, with one for all configurations of a set that never ran alone."""
    alone: dict[str, list[Notice]] = {}
    for one in notices:
        if one.code == "never_alone":
            alone.setdefault(str(one.values["set"]), []).append(one)
    return list(dict.fromkeys(Note(one.code, _text(one, alone), one.severity) for one in notices))


def _text(one: Notice, alone: Mapping[str, Sequence[Notice]]) -> str:
    name = str(one.values.get("set", ""))
    if one.code == "never_alone" and len(alone[name]) > 1:
        where = ", ".join(one.values["workloads"])
        return f"Unknown cost of {shortened(name)} ({where}): {len(alone[name])} of its runs never ran alone."
    return one.text.replace(name, shortened(name)) if name else one.text
