"""Page of a ledger: its picture, whose blocks lead to a table of the runs, in one file without network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from hypergauge.dashboards.palette import COLORS
from hypergauge.dashboards.plots.ledger.picture import anchor, height_text, inline_svg
from hypergauge.dashboards.plots.ledger.words import VALUE, cost_text, mean_text
from hypergauge.dashboards.plots.page import environment
from hypergauge.dashboards.terminal.formatting import duration
from hypergauge.insight.ledger.model import Ledger
from hypergauge.sql.queries.notices import Notice

__all__ = ["LedgerPicture", "ledger_page", "ledger_picture"]


@dataclass(frozen=True, slots=True)
class Row:
    """Line of the table: a run on a lane. The `first` line of a run has its `anchor`."""

    first: bool
    anchor: str
    color: str
    title: str
    lane: str
    host: str
    status: str
    reason: str
    started: str
    duration: str
    mean: str
    cost: str


@dataclass(frozen=True, slots=True)
class LedgerPicture:
    """Ledger for a page.

    Attributes
    ----------
    height
        Meaning of the blocks' heights.
    value
        Title of the column of means.
    """

    svg: Markup
    height: str
    value: str
    rows: tuple[Row, ...]
    notices: tuple[Notice, ...]


def ledger_page(found: Ledger, title: str) -> str:
    """Return the page of a ledger."""
    return environment().get_template("ledger_page.html.j2").render(title=title, ledger=ledger_picture(found))


def ledger_picture(found: Ledger) -> LedgerPicture:
    """Return a ledger for a page that has the rows of its runs, by `anchor`."""
    # matplotlib escapes names, and `tooltip` escapes its text.
    svg = Markup(inline_svg(found))  # noqa: S704
    return LedgerPicture(svg, height_text(found), VALUE[found.measure], tuple(_rows(found)), found.notices)


def _rows(found: Ledger) -> Iterator[Row]:
    seen: set[str] = set()
    for block in found.blocks:
        placed = block.placed
        yield Row(
            first=placed.run_id not in seen,
            anchor=anchor(placed.run_id),
            color=COLORS[placed.color % len(COLORS)],
            title=placed.title,
            lane=placed.lane,
            host=placed.host,
            status=placed.status,
            reason=(placed.reason or "") if placed.early else "",
            started=f"{datetime.fromtimestamp(block.start).astimezone():%Y-%m-%d %H:%M:%S}",
            duration=duration(block.end - block.start),
            mean=mean_text(found, block),
            cost=cost_text(block),
        )
        seen.add(placed.run_id)
