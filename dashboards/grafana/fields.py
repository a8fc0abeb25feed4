"""How the fields of a panel look: units, colours, what holds for some fields only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboards.grafana.queries import Json

__all__ = ["BY_NAME", "UNITS", "color", "for_name", "for_query", "for_regexp", "link", "thresholds", "values"]

# The catalog's units as Grafana calls them; what is missing here is a bare number.
UNITS: Mapping[str, str] = {
    "bytes": "bytes",
    "bytes/s": "binBps",
    "celsius": "celsius",
    "cores": "suffix: cores",
    "events/s": "suffix: /s",
    "hertz": "hertz",
    "joules": "joule",
    "ratio": "percentunit",
    "seconds": "s",
    "watts": "watt",
}
# A series has its colour by its name, so that a run keeps it on every panel and whichever others are chosen.
BY_NAME: Json = {"mode": "palette-classic-by-name"}


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
