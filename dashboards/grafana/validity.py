"""Validity check of dashboards: mistakes that Grafana does not report."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from hypergauge.dashboards.grafana.model.layout import SCHEMA
from hypergauge.dashboards.grafana.queries import Json

__all__ = ["faults"]

_VARIABLE = re.compile(r"\$(?:\{(\w+)[^}]*\}|(\w+))")
# A placeholder of a string that should be an f-string.
_UNFILLED = re.compile(r"(?<![$'])\{[a-zA-Z_.]+\}")
_PANEL_KEYS = ("id", "type", "title", "gridPos", "pluginVersion", "fieldConfig", "options")
_WIDTH = 24


def faults(dashboard: Json) -> Iterator[str]:
    """Yield the faults of a dashboard, one line each."""
    if dashboard.get("schemaVersion") != SCHEMA:
        yield f"schemaVersion is {dashboard.get('schemaVersion')}, but must be {SCHEMA}"
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    panels = list(_all_panels(dashboard["panels"]))
    for panel_id, count in Counter(panel.get("id") for panel in panels).items():
        if count > 1:
            yield f"{count} panels have the id {panel_id}"
    for panel in panels:
        where = f"panel {panel.get('title') or panel.get('id')!r}"
        yield from (f"{where}: {fault}" for fault in _panel_faults(panel, known))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield from (
                f"variable {variable['name']}: {fault}" for fault in _statement_faults(variable["query"], known)
            )


def _all_panels(panels: list[Json]) -> Iterator[Json]:
    for panel in panels:
        yield panel
        yield from _all_panels(panel.get("panels", []))


def _panel_faults(panel: Json, known: set[str]) -> Iterator[str]:
    position = panel.get("gridPos", {})
    if position.get("x", 0) + position.get("w", _WIDTH + 1) > _WIDTH:
        yield f"it does not fit into {_WIDTH} columns: {position}"
    if (repeat := panel.get("repeat")) and repeat not in known:
        yield f"it is repeated by {repeat}, but there is no such variable"
    if panel["type"] == "row":
        return
    for key in _PANEL_KEYS:
        if key not in panel:
            yield f"{key} is missing"
    refs = [target["refId"] for target in panel.get("targets", [])]
    if len(set(refs)) < len(refs):
        yield f"two queries have the same letter: {', '.join(refs)}"
    for target in panel.get("targets", []):
        yield from _statement_faults(target["rawSql"], known)
    yield from _unknown_variables("a field", json.dumps(panel.get("fieldConfig", {})), known)


def _statement_faults(statement: str, known: set[str]) -> Iterator[str]:
    if ":raw}" in statement:
        yield "a variable stands in the query as it is (:raw), so that a value could be SQL"
    if unfilled := _UNFILLED.search(statement):
        yield f"the query contains the unreplaced {unfilled[0]}"
    if ";" in statement:
        yield "there is more than one statement"
    yield from _unknown_variables("the query", statement, known)


def _unknown_variables(where: str, text: str, known: set[str]) -> Iterator[str]:
    for braced, bare in _VARIABLE.findall(text):
        name = braced or bare
        if not name.startswith("__") and name not in known:
            yield f"{where} names the variable {name}, but there is none"
