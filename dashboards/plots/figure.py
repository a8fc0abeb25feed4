"""Figures drawn with matplotlib, as SVG and PDF with searchable text, or as PNG."""

from __future__ import annotations

from hypergauge.dashboards.plots.canvas import SUFFIXES, Looks, saved
from hypergauge.dashboards.plots.drawings.curves import draw_curves
from hypergauge.dashboards.plots.drawings.dots import draw_dots
from hypergauge.dashboards.plots.drawings.parallel import draw_parallel
from hypergauge.dashboards.plots.drawings.scatter import draw_scatter
from hypergauge.dashboards.plots.panels import Layout
from hypergauge.dashboards.plots.rows import BarLayout
from hypergauge.dashboards.plots.styles import applied
from hypergauge.insight.charts.parallel import Parallel
from hypergauge.insight.charts.scatter import Scatter

__all__ = ["SUFFIXES", "Looks", "draw"]

_PLAIN = Looks()


def draw(content: Layout | BarLayout | Scatter | Parallel, suffix: str, looks: Looks = _PLAIN) -> bytes:
    """Return a picture as a file of the type `suffix`, one of `SUFFIXES`.

    Raises
    ------
    BadRequest
        There is no such style, or the size is too small.
    """
    with applied(looks.style) as style:
        if isinstance(content, Layout):
            return saved(draw_curves(content, style, looks), suffix, looks)
        if isinstance(content, BarLayout):
            return saved(draw_dots(content, style, looks), suffix, looks)
        if isinstance(content, Parallel):
            return saved(draw_parallel(content, style, looks), suffix, looks)
        return saved(draw_scatter(content, style, looks), suffix, looks)
