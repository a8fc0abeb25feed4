"""Notices of a report, each once."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.dashboards.terminal.notes import distinct
from hypergauge.insight.charts.chart import Chart
from hypergauge.insight.report import Report
from hypergauge.sql.queries.notices import Notice

__all__ = ["chart_notes", "ledger_notes", "notes"]


def notes(found: Report) -> list[Notice]:
    """Return the notices of the comparison and of interference that no chart has."""
    shown = {*ledger_notes(found), *(text for texts in chart_notes(found.charts) for text in texts)}
    return [one for one in distinct(found.notices) if one.text not in shown]


def ledger_notes(found: Report) -> list[str]:
    """Return the notices of the ledger, which stands before the charts."""
    return [one.text for one in found.ledger.notices] if found.ledger else []


def chart_notes(charts: Sequence[Chart], before: Sequence[str] = ()) -> list[list[str]]:
    """Return the notices of each chart, without those of the charts and other pictures `before`."""
    seen = dict.fromkeys(before)
    made = []
    for one in charts:
        made.append([text for text in dict.fromkeys(notice.text for notice in one.notices) if text not in seen])
        seen |= dict.fromkeys(made[-1])
    return made
