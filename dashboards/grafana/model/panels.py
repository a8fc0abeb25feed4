"""Panels in Grafana's JSON, without `id` and position, which `layout` sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypergauge.dashboards.grafana.model.fields import BY_NAME, color, thresholds
from hypergauge.dashboards.grafana.queries import DATASOURCE, Json

__all__ = [
    "ANSWERED",
    "VERSION",
    "barchart",
    "bargauge",
    "heatmap",
    "panel",
    "stat",
    "state_timeline",
    "table",
    "text",
    "timeseries",
    "trend",
    "xychart",
]

# The Grafana whose options these are: a newer one migrates them, and without a version some panels misread them.
VERSION = "12.2.0"
_TOOLTIP: Json = {"mode": "multi", "sort": "desc"}
_PLAIN = thresholds((None, "green"))
# An answer without rows has no fields, which timelines of states and heat maps call an error; this takes it away.
ANSWERED: Json = {"id": "filterFieldsByName", "options": {"include": {"pattern": ".*"}}}


def panel(
    kind: str,
    title: str,
    targets: Sequence[Json] = (),
    *,
    width: int = 12,
    height: int = 8,
    options: Json | None = None,
    defaults: Json | None = None,
    overrides: Sequence[Json] = (),
    transformations: Sequence[Json] = (),
    description: str = "",
    empty: str | None = None,
    links: Sequence[Json] = (),
    repeat: str | None = None,
    max_per_row: int | None = None,
    interval: str | None = None,
    points: int | None = None,
    time_from: str | None = None,
    transparent: bool = False,
) -> Json:
    """Return a panel of any kind; the functions below know what each kind needs.

    Parameters
    ----------
    width, height
        In units of the dashboard's grid, which is 24 wide.
    defaults, overrides
        How fields look, and what holds for some of them only; see `hypergauge.dashboards.grafana.model.fields`.
    empty
        What stands there where a query gives no rows: what to do about it.
    links
        Links behind the title.
    repeat
        The variable for each of whose values the panel is repeated, `max_per_row` beside each other.
    interval
        The least distance of points, such as ``1s``.
    points
        How many points a curve has at most; by default as many as there are pixels.
    time_from
        From when on, whatever range the dashboard shows: ``now/d`` is today.
    """
    fields: Json = {**({"noValue": empty} if empty else {}), **(defaults or {})}
    made: Json = {
        "id": 0,
        "type": kind,
        "title": title,
        "gridPos": {"h": height, "w": width, "x": 0, "y": 0},
        "pluginVersion": VERSION,
    }
    if targets:
        made |= {"datasource": DATASOURCE, "targets": list(targets)}
    made |= {"fieldConfig": {"defaults": fields, "overrides": list(overrides)}, "options": options or {}}
    more: Json = {
        "description": description,
        "transformations": list(transformations),
        "links": list(links),
        "interval": interval,
        "maxDataPoints": points,
        "timeFrom": time_from,
        "transparent": transparent,
    }
    made |= {key: value for key, value in more.items() if value}
    if repeat:
        made |= {"repeat": repeat, "repeatDirection": "h", **({"maxPerRow": max_per_row} if max_per_row else {})}
    return made


def timeseries(
    title: str,
    targets: Sequence[Json],
    *,
    unit: str | None = None,
    custom: Json | None = None,
    defaults: Json | None = None,
    legend: Sequence[str] = (),
    tooltip: Json = _TOOLTIP,
    **more: Any,
) -> Json:
    """Return curves over time.

    Parameters
    ----------
    unit
        As Grafana calls it; where it depends on what is chosen, see `parts.unit_query`.
    custom
        How curves are drawn, where that differs.
    legend
        What the legend says of each curve besides its name, such as ``mean``.
    """
    drawn: Json = {
        "drawStyle": "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": 0,
        "showPoints": "never",
        "spanNulls": False,
        "axisSoftMin": 0,
        **(custom or {}),
    }
    fields: Json = {"color": BY_NAME, "custom": drawn, **({"unit": unit} if unit else {}), **(defaults or {})}
    shown: Json = {
        "showLegend": True,
        "displayMode": "list",
        "placement": "bottom",
        "calcs": list(legend),
    }
    return panel("timeseries", title, targets, defaults=fields, options={"legend": shown, "tooltip": tooltip}, **more)


def barchart(
    title: str,
    targets: Sequence[Json],
    *,
    x: str,
    unit: str | None = None,
    options: Json | None = None,
    defaults: Json | None = None,
    legend: bool = True,
    **more: Any,
) -> Json:
    """Return bars: a group for each row, named by the column `x`, a bar in it for each column of numbers."""
    fields: Json = {
        "color": {"mode": "palette-classic"},
        "custom": {"fillOpacity": 80, "lineWidth": 0, "axisSoftMin": 0},
        **({"unit": unit} if unit else {}),
        **(defaults or {}),
    }
    drawn: Json = {
        "xField": x,
        "orientation": "auto",
        "showValue": "auto",
        "stacking": "none",
        "groupWidth": 0.7,
        "barWidth": 0.9,
        "barRadius": 0,
        "fullHighlight": False,
        "text": {"valueSize": 10},
        "xTickLabelRotation": 0,
        "xTickLabelSpacing": 0,
        "legend": {"showLegend": legend, "displayMode": "list", "placement": "bottom", "calcs": []},
        "tooltip": {"mode": "multi", "sort": "none"},
        **(options or {}),
    }
    return panel("barchart", title, targets, defaults=fields, options=drawn, **more)


def heatmap(
    title: str,
    targets: Sequence[Json],
    *,
    unit: str | None = None,
    scheme: str = "Viridis",
    ends: tuple[float, float] | None = None,
    options: Json | None = None,
    **more: Any,
) -> Json:
    """Return a heat map of rows: a line for each series, its value at each time as a colour.

    Parameters
    ----------
    ends
        The values of the first and the last colour, on a linear scale; by default those that there are, of which the small
        ones have more colours.
    """
    drawn: Json = {
        "calculate": False,
        "rowsFrame": {"layout": "auto"},
        "cellGap": 0,
        "cellValues": {**({"unit": unit} if unit else {})},
        "color": {
            "mode": "scheme",
            "scheme": scheme,
            "fill": "dark-orange",
            "scale": "exponential",
            "exponent": 1 if ends else 0.5,
            "steps": 64,
            "reverse": False,
            **({"min": ends[0], "max": ends[1]} if ends else {}),
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "reverse": True},
        **(options or {}),
    }
    custom: Json = {
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
        "scaleDistribution": {"type": "linear"},
    }
    return panel("heatmap", title, targets, defaults={"custom": custom}, options=drawn, **more)


def stat(
    title: str,
    targets: Sequence[Json],
    *,
    unit: str | None = None,
    sparkline: bool = False,
    text: bool = False,
    calc: str = "lastNotNull",
    defaults: Json | None = None,
    options: Json | None = None,
    **more: Any,
) -> Json:
    """Return one figure, large, with the curve behind it where `sparkline`, or a `text` that a query gives."""
    fields: Json = {
        "color": {"mode": "thresholds"} if text else color("text"),
        "thresholds": thresholds((None, "text")),
        **({"unit": unit} if unit else {}),
        **(defaults or {}),
    }
    drawn: Json = {
        "colorMode": "value",
        "graphMode": "area" if sparkline else "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": [calc], "fields": "/.*/" if text else "", "values": False},
        "showPercentChange": False,
        "textMode": "value" if text else "auto",
        "wideLayout": True,
        **(options or {}),
    }
    return panel("stat", title, targets, defaults=fields, options=drawn, **more)


def bargauge(
    title: str,
    targets: Sequence[Json],
    *,
    unit: str | None = None,
    defaults: Json | None = None,
    options: Json | None = None,
    **more: Any,
) -> Json:
    """Return a horizontal bar for each row of a table with a name and a number."""
    fields: Json = {
        "color": BY_NAME,
        "thresholds": _PLAIN,
        "min": 0,
        **({"unit": unit} if unit else {}),
        **(defaults or {}),
    }
    drawn: Json = {
        "displayMode": "basic",
        "legend": {"showLegend": False, "displayMode": "list", "placement": "bottom", "calcs": []},
        "maxVizHeight": 300,
        "minVizHeight": 16,
        "minVizWidth": 8,
        "namePlacement": "auto",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": True},
        "showUnfilled": True,
        "sizing": "auto",
        "text": {"titleSize": 12, "valueSize": 14},
        "valueMode": "color",
        **(options or {}),
    }
    return panel("bargauge", title, targets, defaults=fields, options=drawn, **more)


def table(
    title: str,
    targets: Sequence[Json],
    *,
    sort: str | None = None,
    descending: bool = False,
    defaults: Json | None = None,
    options: Json | None = None,
    **more: Any,
) -> Json:
    """Return a table, in the order of its rows or sorted by a column."""
    fields: Json = {
        "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": False, "inspect": False},
        "thresholds": _PLAIN,
        "color": {"mode": "thresholds"},
        **(defaults or {}),
    }
    drawn: Json = {
        "cellHeight": "sm",
        "showHeader": True,
        "sortBy": [{"displayName": sort, "desc": descending}] if sort else [],
        **(options or {}),
    }
    return panel("table", title, targets, defaults=fields, options=drawn, **more)


def state_timeline(
    title: str,
    targets: Sequence[Json],
    *,
    defaults: Json | None = None,
    options: Json | None = None,
    transformations: Sequence[Json] = (),
    **more: Any,
) -> Json:
    """Return states over time: a line for each series, its text as a colour."""
    fields: Json = {
        "color": {"mode": "palette-classic"},
        "custom": {"fillOpacity": 70, "lineWidth": 1, "spanNulls": False},
        "thresholds": _PLAIN,
        **(defaults or {}),
    }
    drawn: Json = {
        "alignValue": "left",
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"},
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "auto",
        "tooltip": {"mode": "single", "sort": "none"},
        **(options or {}),
    }
    return panel(
        "state-timeline",
        title,
        targets,
        defaults=fields,
        options=drawn,
        transformations=[ANSWERED, *transformations],
        **more,
    )


def trend(
    title: str,
    targets: Sequence[Json],
    *,
    x: str,
    unit: str | None = None,
    custom: Json | None = None,
    legend: Sequence[str] = (),
    **more: Any,
) -> Json:
    """Return curves over a number, `x`, which is no time; they cannot be zoomed. See `timeseries`."""
    made = timeseries(title, targets, unit=unit, custom=custom, legend=legend, **more)
    return {**made, "type": "trend", "options": {**made["options"], "xField": x}}


def xychart(
    title: str,
    targets: Sequence[Json],
    series: Sequence[Json],
    *,
    defaults: Json | None = None,
    options: Json | None = None,
    **more: Any,
) -> Json:
    """Return points of two numbers; each of `series` says by which columns."""
    fields: Json = {
        "color": {"mode": "palette-classic"},
        "custom": {"show": "points", "pointSize": {"fixed": 10}, "pointShape": "circle", "fillOpacity": 60},
        **(defaults or {}),
    }
    drawn: Json = {
        "mapping": "manual",
        "series": list(series),
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
        **(options or {}),
    }
    return panel("xychart", title, targets, defaults=fields, options=drawn, **more)


def text(content: str, *, title: str = "", **more: Any) -> Json:
    """Return a panel of Markdown."""
    return panel("text", title, options={"mode": "markdown", "content": content}, **more)
