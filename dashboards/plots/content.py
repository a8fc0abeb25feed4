"""Content of a plot: what the database has on runs, laid out for one kind of plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypergauge.dashboards.plots.page import page
from hypergauge.dashboards.plots.panels import Layout, lay_out
from hypergauge.dashboards.plots.rows import BarLayout, lay_out_bars
from hypergauge.insight.charts.bars import Bars, bars
from hypergauge.insight.charts.chart import Chart, chart
from hypergauge.insight.charts.parallel import Parallel, parallel
from hypergauge.insight.charts.parameters import facets
from hypergauge.insight.charts.scatter import Scatter, scatter
from hypergauge.insight.part import Part
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Content", "read_content"]


@dataclass(frozen=True, slots=True)
class Content:
    """What a plot shows, and where.

    Attributes
    ----------
    found
        Values and notices.
    layout
        Their layout; the same for plots with a single panel.
    """

    found: Chart | Bars | Scatter | Parallel
    layout: Layout | BarLayout | Scatter | Parallel

    def drawn(self, suffix: str, title: str, selectors: Sequence[str], **looks: Any) -> bytes:
        """Return the plot as a file of the type `suffix`; curves in ``.html`` are a page to zoom into.

        `looks` are further fields of `hypergauge.dashboards.plots.canvas.Looks`.
        """
        if isinstance(self.layout, Layout) and suffix == ".html":
            names = ", ".join(dict.fromkeys(panel.axis.name for panel in self.layout.panels))
            return page([self.layout], title or f"{names} of {', '.join(selectors)}").encode()
        from hypergauge.dashboards.plots.figure import Looks, draw  # imports matplotlib, a quarter of a second

        return draw(self.layout, suffix, Looks(title=title, **looks))


def read_content(
    connection: Connection, runs: Sequence[RunInfo], metrics: Sequence[str], *, kind: str, by: str, align: str,
    scopes: Sequence[str] | None, facet: str | None, x: str | None, points: int, part: Part | None = None,
) -> Content:  # fmt: skip
    """Read what a plot of `kind` shows.

    Parameters
    ----------
    facet
        Parameter with a panel for each of its values.
    x
        Parameter on the horizontal axis of a scatter plot.
    points
        Number of points that a curve has at most.
    part
        Part of each run; by default whole runs.
    """
    if kind == "bars":
        found = bars(connection, runs, metrics, by=by, scopes=scopes, part=part)
        return Content(found, lay_out_bars(found))
    if kind == "parallel":
        lines = parallel(connection, runs, metrics, scopes=scopes, part=part)
        return Content(lines, lines)
    if x is not None:
        dots = scatter(connection, runs, metrics, x, scopes=scopes, part=part)
        return Content(dots, dots)
    panels = None if facet is None else facets(runs, facet)
    curves = chart(connection, runs, metrics, by=by, align=align, scopes=scopes, points=points, part=part)
    return Content(curves, lay_out(curves, panels))
