"""Interactive page of charts, in one file without network or server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hypergauge.core.files.package_data import package_files
from hypergauge.dashboards.palette import COLORS, STROKES
from hypergauge.dashboards.plots.panels import Entry, Layout, Line, Panel
from hypergauge.insight.charts.chart import Floats

__all__ = ["chart_data", "environment", "page"]

Number = float | int | None

_HERE = Path(__file__).parent.parent
# Significant digits of values and of positions on the axis: more than a screen shows, and few bytes.
_DIGITS, _DECIMALS = 4, 7


def page(layouts: Sequence[Layout], title: str, footer: str = "") -> str:
    """Return a page with charts, one above the other."""
    charts = [(layout, chart_data(layout)) for layout in layouts]
    return environment().get_template("plot.html.j2").render(title=title, charts=charts, footer=footer)


@cache
def environment() -> Environment:
    """Return the environment of templates, with the CSS and JavaScript that pages embed."""
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.globals["assets"] = {
        name: Markup(file.read_text(encoding="utf-8"))  # noqa: S704 - files of this package
        for name, file in package_files("hypergauge.dashboards", "assets")
        if name.endswith((".js", ".css"))
    }
    made.globals["swatch"] = _swatch
    return made


def chart_data(layout: Layout) -> Markup:
    """Return a chart as JSON for a script of a page, safe for any name."""
    axes: dict[tuple[Number, ...], int] = {}
    panels = [_panel(panel, axes) for panel in layout.panels]
    content = {
        "x": {"unit": layout.x.unit or layout.x.name, "begins": layout.begins},
        "legend": [entry.name for entry in layout.legend],
        "styles": [{"color": _color(entry), "dash": _dash(entry)} for entry in layout.legend],
        "facets": layout.facets,
        "xs": list(axes),
        "panels": panels,
    }
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    # `</script>` would end the script, and `<!--` would change what ends it.
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - no markup is left in it


def _panel(panel: Panel, axes: dict[tuple[Number, ...], int]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "zero": panel.from_zero,
        "measured": bool(panel.axis.unit),
        "lines": [_line(line, axes) for line in panel.lines],
    }
    if panel.counts:
        made["counts"] = True
    if panel.crowd:
        made["crowd"] = {"named": panel.crowd.named}
        found = panel.crowd.spread
        # Curves of few points, such as a metric that is logged once, may have no common positions.
        if found.x.size:
            x = tuple(_rounded(found.x, _DECIMALS))
            low, median, high = (_rounded(one, _DIGITS) for one in (found.low, found.median, found.high))
            made["crowd"] |= {"x": axes.setdefault(x, len(axes)), "low": low, "value": median, "high": high}
    return made


def _line(line: Line, axes: dict[tuple[Number, ...], int]) -> dict[str, Any]:
    x = tuple(_rounded(line.x, _DECIMALS))
    made = {"key": line.key, "x": axes.setdefault(x, len(axes)), "value": _rounded(line.value, _DIGITS)}
    for name, some in (("low", line.low), ("high", line.high)):
        rounded = _rounded(some, _DIGITS)
        if rounded != made["value"]:
            made[name] = rounded
    if line.ended_early:
        made["ended_early"] = True
    if line.shared:
        made["shared"] = line.shared
    if line.last is not None:
        [made["last"]] = _rounded(np.array([line.last]), _DIGITS)
    return made


def _rounded(some: Floats, digits: int) -> list[Number]:
    numbers = [None if np.isnan(one) else float(f"{one:.{digits}g}") for one in some]
    return [int(one) if one is not None and one.is_integer() else one for one in numbers]


def _color(entry: Entry) -> str:
    return COLORS[entry.style.color % len(COLORS)]


def _dash(entry: Entry) -> tuple[float, ...]:
    return STROKES[entry.style.stroke % len(STROKES)]


def _swatch(entry: Entry) -> dict[str, str]:
    """Return the attributes of the curve in the legend."""
    return {"stroke": _color(entry), "stroke-dasharray": " ".join(str(2.5 * part) for part in _dash(entry))}
