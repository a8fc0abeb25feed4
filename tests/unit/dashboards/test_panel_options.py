"""Committed dashboards against a schema of Grafana's own types, which finds options that Grafana would ignore."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from benchmarks.support import grafana

_SCHEMA: grafana.Json = json.loads(Path("tests/data/grafana/dashboard.schema.json").read_text())
_PANELS = _SCHEMA["$defs"]["panels"]
BOARDS = [json.loads(path.read_text()) for path in sorted(Path("dashboards/generated").rglob("*.json"))]


def faults(dashboard: grafana.Json) -> Iterator[str]:
    """Yield unknown options and values of a wrong type, with their position."""
    yield from _faults(dashboard, "dashboard", dashboard.get("uid"))
    for panel in dashboard["panels"]:
        for one in (panel, *panel.get("panels", [])):
            where = f"{one.get('title') or one.get('id')}"
            if one.get("type") not in _PANELS:
                yield f"{where}: no panel of ours has the type {one.get('type')!r}"
            else:
                yield from _faults(one, f"panels/{one['type']}", where)


def _faults(node: grafana.Json, definition: str, where: object) -> Iterator[str]:
    validator = Draft202012Validator({**_SCHEMA, "$ref": f"#/$defs/{definition}"})
    for error in validator.iter_errors(node):
        yield f"{where}: {error.json_path}: {error.message[:300]}"


@pytest.mark.parametrize("dashboard", BOARDS, ids=lambda board: board["uid"])
def test_a_dashboard_holds_only_what_grafana_knows(dashboard: grafana.Json) -> None:
    assert list(faults(dashboard)) == []


@pytest.mark.parametrize("dashboard", BOARDS, ids=lambda board: board["uid"])
def test_a_measured_zero_is_drawn(dashboard: grafana.Json) -> None:
    panels = [one for panel in dashboard["panels"] for one in (panel, *panel.get("panels", []))]
    hidden = [one["options"]["filterValues"]["le"] for one in panels if one["type"] == "heatmap"]
    assert all(value < 0 for value in hidden)
    # The first color of schemes such as Blues is that of an empty cell.
    assert {one["options"]["color"]["scheme"] for one in panels if one["type"] == "heatmap"} <= {"Viridis"}


def panel(kind: str, **more: Any) -> grafana.Json:
    """Return a dashboard with one panel."""
    made = {
        "id": 1, "type": kind, "title": "t", "pluginVersion": "12.2.0", "gridPos": {"x": 0, "y": 0, "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": "watt"}, "overrides": []}, "options": {}, **more,
    }  # fmt: skip
    return {"uid": "u", "title": "T", "schemaVersion": 42, "panels": [made]}


def one(kind: str) -> tuple[str, Any]:
    """Return an option of a type of panel, with its value."""
    return {
        "barchart": ("barWidth", 0.7), "bargauge": ("valueMode", "color"), "gauge": ("showThresholdMarkers", False),
        "heatmap": ("cellGap", 0), "histogram": ("bucketCount", 9), "piechart": ("pieType", "donut"),
        "stat": ("colorMode", "none"), "state-timeline": ("rowHeight", 0.8), "status-history": ("rowHeight", 0.8),
        "table": ("showHeader", False), "text": ("mode", "markdown"), "timeseries": ("legend", {"showLegend": False}),
        "trend": ("xField", "x"), "xychart": ("mapping", "manual"),
    }[kind]  # fmt: skip


KINDS = sorted(set(_PANELS) - {"row"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelled_option_is_found(kind: str) -> None:
    option, value = one(kind)
    good = panel(kind, options={option: value})
    assert list(faults(good)) == []
    for place, key, fine in (("options", option, value), ("defaults", "unit", "watt"), ("custom", "fillOpacity", 10)):
        bad = copy.deepcopy(good)
        [made] = bad["panels"]
        defaults = made["fieldConfig"]["defaults"]
        into = {"options": made["options"], "defaults": defaults, "custom": defaults.setdefault("custom", {})}[place]
        into.pop(key, None)
        into[f"{key}y"] = fine
        assert [f"'{key}y' was unexpected" in fault for fault in faults(bad)] == [True]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"unit": "wat"}, "is not valid"),
        ({"color": {"mode": "palette-clasic"}}, "'palette-clasic' is not one of"),
        ({"custom": {"drawStyle": "lines"}}, "'lines' is not one of"),
        ({"custom": {"fillOpacity": "10"}}, "'10' is not of type 'number'"),
        ({"thresholds": {"mode": "absolute", "steps": [{"colour": "red", "value": 1}]}}, "'colour' was unexpected"),
        ({"mappings": [{"type": "value", "options": {"1": {"txt": "on"}}}]}, "is not valid"),
        ({"links": [{"title": "x", "href": "/"}]}, "'href' was unexpected"),
    ],
)
def test_a_value_that_does_not_exist_is_found(change: grafana.Json, fault: str) -> None:
    assert any(
        fault in found for found in faults(panel("timeseries", fieldConfig={"defaults": change, "overrides": []}))
    )


@pytest.mark.parametrize(
    ("property_", "fault"),
    [
        ({"id": "unti", "value": "watt"}, "'unti' is not one of"),
        ({"id": "custom.fillOpacityy", "value": 1}, "'custom.fillOpacityy' is not one of"),
        ({"id": "custom.fillOpacity", "value": "much"}, "'much' is not of type 'number'"),
        ({"id": "unit", "value": "wat"}, "is not valid"),
    ],
)
def test_a_misspelled_override_is_found(property_: grafana.Json, fault: str) -> None:
    override = {"matcher": {"id": "byName", "options": "x"}, "properties": [property_]}
    made = panel("timeseries", fieldConfig={"defaults": {}, "overrides": [override]})
    assert any(fault in found for found in faults(made))


def test_what_is_wrong_besides_options_is_found() -> None:
    made = panel("timeseries", transformations=[{"id": "organise", "options": {}}], targets=[{"refId": "A"}])
    made |= {"time": {"from": "now-1h"}, "templating": {"list": [{"name": "run", "type": "querry"}]}}
    found = "\n".join(faults(made))
    for fault in (
        "'organise' is not one of",
        "'rawSql' is a required property",
        "'to' is a required property",
        "'querry'",
    ):
        assert fault in found
    made["panels"][0]["type"] = "graph"
    assert list(faults(made))[-1] == "t: no panel of ours has the type 'graph'"
