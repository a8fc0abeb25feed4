"""Field options of panels: units, colors, overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypergauge.dashboards.grafana.queries import Json
from hypergauge.dashboards.palette import COLORS

__all__ = [
    "BY_NAME",
    "BY_TIME",
    "GRAY",
    "by_label",
    "color",
    "for_name",
    "for_names",
    "for_numbers",
    "for_query",
    "for_regexp",
    "hidden",
    "hidden_point",
    "link",
    "partition",
    "thresholds",
    "values",
]

# Hash of the name: stable, but two of eight names often share a color. Not for runs and workloads.
BY_NAME: Json = {"mode": "palette-classic-by-name"}
# Transformation of curves to the columns of one table.
BY_TIME: Json = {"id": "joinByField", "options": {"byField": "time", "mode": "outer"}}
# Of one of many curves, in both themes.
GRAY = "rgba(128, 128, 128, 0.45)"
_STROKES = ({"fill": "dash", "dash": [10, 6]}, {"fill": "dot", "dash": [2, 5]})


def color(name: str) -> Json:
    """Return one color for all fields."""
    return {"mode": "fixed", "fixedColor": name}


def for_name(name: str, **properties: Any) -> Json:
    """Return options of the field with this name.

    Properties are Grafana's names, with ``__`` for each dot: ``unit="s"``, ``custom__width=80``.
    """
    return _override("byName", name, properties)


def for_names(*names: str, **properties: Any) -> list[Json]:
    """Return the options of several fields, one override each; see `for_name`."""
    return [for_name(name, **properties) for name in names]


def hidden(*names: str) -> list[Json]:
    """Return overrides that keep columns for links, but do not show them."""
    return for_names(*names, custom__hideFrom__viz=True)


def for_regexp(expression: str, **properties: Any) -> Json:
    """Return options of the fields whose names match an expression such as ``/^min/``; see `for_name`."""
    return _override("byRegexp", expression, properties)


def for_query(ref: str, **properties: Any) -> Json:
    """Return options of the fields of one query; see `for_name`."""
    return _override("byFrameRefID", ref, properties)


def for_numbers(**properties: Any) -> Json:
    """Return options of all numbers; see `for_name`."""
    return _override("byType", "number", properties)


def hidden_point(name: str) -> Json:
    """Return the override that hides the only point of a placeholder: Grafana shows an error without a point."""
    return for_name(name, color=color("transparent"), custom__pointSize={"fixed": 0}, custom__fillOpacity=0)


def by_label() -> list[Json]:
    """Return overrides that take a curve's color, stroke and name from its labels `color`, `stroke` and `title`.

    The query sets the labels, so a run keeps its color on every panel and with every selection. One of many curves is gray.
    """
    return [
        *(for_regexp(f'/color="{number}"/', color=color(value)) for number, value in enumerate(COLORS)),
        for_regexp(
            '/color="gray"/',
            color=color(GRAY),
            custom__lineWidth=1,
            custom__hideFrom={"legend": True, "tooltip": False, "viz": False},
        ),
        *(for_regexp(f'/stroke="{number}"/', custom__lineStyle=style) for number, style in enumerate(_STROKES, 1)),
        # Last, because the new name hides the labels that the others match.
        for_numbers(displayName="${__field.labels.title}"),
    ]


def link(title: str, url: str, *, new_tab: bool = False) -> Json:
    """Return a link from a point of a curve or a cell of a table."""
    return {"title": title, "url": url, "targetBlank": new_tab}


def thresholds(*steps: tuple[float | None, str]) -> Json:
    """Return thresholds as pairs of lowest value and color; the first value is ``None``."""
    return {"mode": "absolute", "steps": [{"value": value, "color": name} for value, name in steps]}


def values(texts: Mapping[str, tuple[str, str]]) -> list[Json]:
    """Return a mapping of values to texts and colors: ``{"finished": ("finished", "green")}``."""
    options = {
        value: {"text": text, "color": name, "index": index}
        for index, (value, (text, name)) in enumerate(texts.items())
    }
    return [{"type": "value", "options": options}]


def partition(*columns: str) -> Json:
    """Return the transformation that makes a frame of each group of rows, labeled with the columns that group them."""
    labels = {"fields": list(columns), "keepFields": False, "naming": {"asLabels": True}}
    return {"id": "partitionByValues", "options": labels}


def _override(matcher: str, options: str, properties: Mapping[str, Any]) -> Json:
    return {
        "matcher": {"id": matcher, "options": options},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }
