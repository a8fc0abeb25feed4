"""Notices of a report, each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypergauge.insight.charts.chart import Chart
from hypergauge.insight.report import Report
from hypergauge.sql.queries.notices import Notice

__all__ = ["Note", "chart_notes", "notes", "shortened"]

# Parts of the name of a set that a text repeats.
_MOST_PARTS = 3
_PLUS = " + "


@dataclass(frozen=True, slots=True)
class Note:
    """Text of a notice with its severity."""

    text: str
    severity: str


def notes(found: Report) -> list[Note]:
    """Return the notices of the comparison and of interference that no chart has, without repetitions."""
    shown = {text for one in chart_notes(found.charts) for text in one}
    made = dict.fromkeys(Note(text, severity) for text, severity in _texts(found.notices) if text not in shown)
    return list(made)


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


def _texts(notices: Sequence[Notice]) -> Iterator[tuple[str, str]]:
    """Yield text and severity of notices, with one text for all configurations of a set that never ran alone."""
    alone: dict[str, list[Notice]] = {}
    for one in notices:
        if one.code == "never_alone":
            alone.setdefault(str(one.values["set"]), []).append(one)
    for one in notices:
        name = str(one.values.get("set", ""))
        same = alone.get(name, []) if one.code == "never_alone" else []
        if len(same) > 1:
            where = ", ".join(one.values["workloads"])
            yield f"Unknown cost of {shortened(name)} ({where}): {len(same)} of its runs never ran alone.", one.severity
        else:
            yield one.text.replace(name, shortened(name)) if name else one.text, one.severity
