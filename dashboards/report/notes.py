"""Notices of a report, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypergauge.insight.charts.chart import Chart
from hypergauge.insight.report import Report
from hypergauge.sql.queries.notices import Notice

__all__ = ["Note", "chart_notes", "merged", "notes", "shortened"]

# Parts of the name of a set that a text repeats.
_MOST_PARTS = 3
_PLUS = " + "


@dataclass(frozen=True, slots=True)
class Note:
    """Text of a notice with its code and severity."""

    code: str
    text: str
    severity: str


def notes(found: Report) -> list[Note]:
    """Return the notices of the comparison and of interference that no chart has."""
    shown = {text for texts in chart_notes(found.charts) for text in texts}
    return [one for one in merged(found.notices) if one.text not in shown]


def chart_notes(charts: Sequence[Chart]) -> list[list[str]]:
    """Return the notices of each chart, without those of the charts before."""
    seen: dict[str, None] = {}
    made = []
    for one in charts:
        made.append([text for text in dict.fromkeys(notice.text for notice in one.notices) if text not in seen])
        seen |= dict.fromkeys(made[-1])
    return made


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
