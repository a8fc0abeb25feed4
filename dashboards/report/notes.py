"""Notices of a report, each once."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.dashboards.terminal.notes import Note, merged
from hypergauge.insight.charts.chart import Chart
from hypergauge.insight.report import Report

__all__ = ["chart_notes", "notes"]


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
