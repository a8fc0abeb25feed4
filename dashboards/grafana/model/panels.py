"""Panels in Grafana's JSON, without `id` and position, which `layout` sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypergauge.dashboards.grafana.model.fields import BY_NAME, color, thresholds
from hypergauge.dashboards.grafana.queries import DATASOURCE, Json, query

__all__ = [
    "KEEP_FIELDS",
    "VERSION",
    "heatmap",
    "panel",
    "stat",
    "state_timeline",
    "table",
    "timeseries",
    "trend",
    "xychart",
]

Targets = str | Sequence[Json]

# These options belong to this version: a newer Grafana migrates them. Without a version, some panels misread them.
VERSION = "12.2.0"
_PLAIN = thresholds((None, "green"))
# A response without rows has no fields, which state timelines and heat maps report as an error. This filter avoids it.
KEEP_FIELDS: Json = {"id": "filterFieldsByName", "options": {"include": {"pattern": ".*"}}}


def panel(
    kind: str,
    title: str,
    targets: Targets,
    *,
    fields: Json,
    drawn: Json,
    unit: str | None = None,
    defaults: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    overrides: Sequence[Json] = (),
    transformations: Sequence[Json] = (),
    width: int = 12,
    height: int = 8,
    description: str = "",
    empty: str | None = None,
    repeat: str | None = None,
    max_per_row: int | None = None,
    interval: str | None = None,
    points: int | None = None,
    time_from: str | None = None,
) -> Json:
    """Return a panel of any kind.

    Parameters
    ----------
    targets
        Queries, or one statement that gives a table.
    fields, drawn
        Field and panel options that the kind starts from.
    unit
        Grafana's name of the unit. For a unit that follows a variable, see `parts.in_unit_of`.
    defaults, options
        Field and panel options that replace those of the kind.
    overrides
        Options of some fields only; see `hypergauge.dashboards.grafana.model.fields`.
    width, height
        In units of the dashboard's grid, which is 24 wide.
    empty
        Text for an empty result: what the user can do about it.
    repeat
        Variable whose values each get a panel, `max_per_row` side by side.
    interval
        Smallest distance of points, such as ``1s``.
    points
        Largest number of points of a curve; by default the number of pixels.
    time_from
        Start of the panel's own time range: ``now/d`` is today. Grafana's note on it would hide the title, which names the range.
    """
    made: Json = {
        "id": 0,
        "type": kind,
        "title": title,
        "gridPos": {"h": height, "w": width, "x": 0, "y": 0},
        "pluginVersion": VERSION,
        "datasource": DATASOURCE,
        "targets": [query(targets)] if isinstance(targets, str) else list(targets),
        "fieldConfig": {
            "defaults": {
                **({"noValue": empty} if empty else {}),
                **fields,
                **({"unit": unit} if unit else {}),
                **(defaults or {}),
            },
            "overrides": list(overrides),
        },
        "options": {**drawn, **(options or {})},
    }
    more: Json = {
        "description": description,
        "transformations": list(transformations),
        "interval": interval,
        "maxDataPoints": points,
        "timeFrom": time_from,
        "hideTimeOverride": time_from is not None,
        "repeat": repeat,
        "repeatDirection": "h" if repeat else None,
        "maxPerRow": max_per_row,
    }
    return made | {key: value for key, value in more.items() if value}


def timeseries(
    title: str,
    targets: Targets,
    *,
    custom: Mapping[str, Any] | None = None,
    legend: Sequence[str] = (),
    **more: Any,
) -> Json:
    """Return curves over time.

    Parameters
    ----------
    custom
        Drawing options that differ from the default.
    legend
        Values that the legend shows beside each name, such as ``mean``.
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
    return panel(
        "timeseries",
        title,
        targets,
        fields={"color": BY_NAME, "custom": drawn},
        drawn={"legend": _legend(calcs=list(legend)), "tooltip": {"mode": "multi", "sort": "desc"}},
        **more,
    )


def trend(title: str, targets: Targets, *, x: str, **more: Any) -> Json:
    """Return curves over the number `x`, which cannot be zoomed. See `timeseries`."""
    made = timeseries(title, targets, **more)
    return {**made, "type": "trend", "options": {**made["options"], "xField": x}}


def heatmap(
    title: str,
    targets: Targets,
    *,
    unit: str | None = None,
    scheme: str = "Viridis",
    ends: tuple[float, float] | None = None,
    **more: Any,
) -> Json:
    """Return a heat map: one row for each series, its value at each time as a color.

    Parameters
    ----------
    ends
        Values of the first and the last color, on a linear scale. By default the data's own, with more colors for
        small values.
    """
    drawn: Json = {
        "calculate": False,
        "rowsFrame": {"layout": "auto"},
        "cellGap": 0,
        "cellValues": {"unit": unit} if unit else {},
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
        "filterValues": {"le": -1e30},  # Grafana hides values up to 1e-9 by default, so a measured 0 as well
        "legend": {"show": True},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "reverse": True},
    }
    custom: Json = {
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
        "scaleDistribution": {"type": "linear"},
    }
    return panel("heatmap", title, targets, fields={"custom": custom}, drawn=drawn, **more)


def stat(
    title: str,
    targets: Targets,
    *,
    sparkline: bool = False,
    text: bool = False,
    calc: str = "lastNotNull",
    empty: str = "—",
    **more: Any,
) -> Json:
    """Return one large value, with its curve behind it if `sparkline`, or a `text` from a query."""
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
    }
    fields: Json = {
        "color": {"mode": "thresholds"} if text else color("text"),
        "thresholds": thresholds((None, "text")),
    }
    return panel("stat", title, targets, fields=fields, drawn=drawn, empty=empty, **more)


def table(title: str, targets: Targets, **more: Any) -> Json:
    """Return a table, in the order of its rows."""
    fields: Json = {
        "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": False, "inspect": False},
        "thresholds": _PLAIN,
        "color": {"mode": "thresholds"},
    }
    drawn: Json = {"cellHeight": "sm", "showHeader": True, "sortBy": []}
    return panel("table", title, targets, fields=fields, drawn=drawn, **more)


def state_timeline(
    title: str, targets: Targets, *, legend: bool = True, transformations: Sequence[Json] = (), **more: Any
) -> Json:
    """Return states over time: one row for each series, its text as a color."""
    fields: Json = {
        "color": {"mode": "palette-classic"},
        "custom": {"fillOpacity": 70, "lineWidth": 1, "spanNulls": False},
        "thresholds": _PLAIN,
    }
    drawn: Json = {
        "alignValue": "left",
        "legend": _legend(shown=legend),
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "auto",
        "tooltip": {"mode": "single", "sort": "none"},
    }
    transformations = [KEEP_FIELDS, *transformations]
    return panel("state-timeline", title, targets, fields=fields, drawn=drawn, transformations=transformations, **more)


def xychart(title: str, targets: Targets, **more: Any) -> Json:
    """Return points of two numbers, a series for each frame."""
    fields: Json = {
        "color": {"mode": "palette-classic"},
        "custom": {"show": "points", "pointSize": {"fixed": 10}, "pointShape": "circle", "fillOpacity": 60},
    }
    tooltip: Json = {"mode": "single", "sort": "none"}
    drawn: Json = {"mapping": "auto", "series": [], "legend": _legend(calcs=[]), "tooltip": tooltip}
    return panel("xychart", title, targets, fields=fields, drawn=drawn, **more)


def _legend(*, shown: bool = True, calcs: Sequence[str] | None = None) -> Json:
    """Return a legend below the panel; `calcs` are the values that it shows beside each name."""
    legend: Json = {"showLegend": shown, "displayMode": "list", "placement": "bottom"}
    return legend if calcs is None else {**legend, "calcs": list(calcs)}
