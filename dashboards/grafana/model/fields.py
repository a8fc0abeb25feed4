"""Field options of panels: units, colours, overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypergauge.dashboards.grafana.queries import Json

__all__ = [
    "BY_NAME",
    "COLORS",
    "by_label",
    "color",
    "for_name",
    "for_query",
    "for_regexp",
    "link",
    "thresholds",
    "values",
]

# By a hash of the name: stable, but two of eight names often get the same. For what is no run and no workload.
BY_NAME: Json = {"mode": "palette-classic-by-name"}
# In the order of `chart_style`. Told apart with most kinds of colour blindness, and to be seen on white and on black.
COLORS = (
    "#3274D9", "#E69F00", "#009E73", "#D55E00", "#A352CC", "#56B4E9",
    "#CC79A7", "#8C6D31", "#E0245E", "#7EB026", "#00A6A6", "#7F7F9F",
)  # fmt: skip
_STROKES = ({"fill": "dash", "dash": [10, 6]}, {"fill": "dot", "dash": [2, 5]})


def color(name: str) -> Json:
    """Return one colour for everything."""
    return {"mode": "fixed", "fixedColor": name}


def for_name(name: str, **properties: Any) -> Json:
    """Return what holds for the field of a name only.

    Properties are the names of Grafana with ``__`` for each dot: ``unit="s"``, ``custom__width=80``.
    """
    return _override("byName", name, properties)


def for_regexp(expression: str, **properties: Any) -> Json:
    """Return what holds for the fields whose names match an expression, such as ``/^min/``, only; see `for_name`."""
    return _override("byRegexp", expression, properties)


def for_query(ref: str, **properties: Any) -> Json:
    """Return what holds for the fields of one query only; see `for_name`."""
    return _override("byFrameRefID", ref, properties)


def by_label() -> list[Json]:
    """Return what gives each curve the colour and stroke of its labels `color` and `stroke`, and its label `title` as name.

    So a run has its colour on every panel, and keeps it when others are chosen beside it or no more: the query gives it.
    """
    return [
        *(for_regexp(f'/color="{number}"/', color=color(value)) for number, value in enumerate(COLORS)),
        *(for_regexp(f'/stroke="{number}"/', custom__lineStyle=style) for number, style in enumerate(_STROKES, 1)),
        # Last: with this name, the others are no longer to be seen.
        _override("byType", "number", {"displayName": "${__field.labels.title}"}),
    ]


def link(title: str, url: str, *, new_tab: bool = False) -> Json:
    """Return a link of a field: from a point of a curve or a cell of a table."""
    return {"title": title, "url": url, "targetBlank": new_tab}


def thresholds(*steps: tuple[float | None, str]) -> Json:
    """Return thresholds: from which value on which colour; the first value is ``None``."""
    return {"mode": "absolute", "steps": [{"value": value, "color": name} for value, name in steps]}


def values(texts: Mapping[str, tuple[str, str]]) -> list[Json]:
    """Return a mapping of values to texts and colours: ``{"finished": ("finished", "green")}``."""
    options = {
        value: {"text": text, "color": name, "index": index}
        for index, (value, (text, name)) in enumerate(texts.items())
    }
    return [{"type": "value", "options": options}]


def _override(matcher: str, options: str, properties: Mapping[str, Any]) -> Json:
    return {
        "matcher": {"id": matcher, "options": options},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }
