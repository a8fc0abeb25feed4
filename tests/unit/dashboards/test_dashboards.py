"""Committed files of dashboards, and their checks."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hypergauge.cli import app
from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.grafana import files
from hypergauge.dashboards.grafana.boards import BOARDS, board
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import for_name, link
from hypergauge.dashboards.grafana.model.layout import Row, dashboard
from hypergauge.dashboards.grafana.queries import query
from hypergauge.dashboards.grafana.validity import faults


def test_committed_files_are_what_the_code_yields() -> None:
    assert list(files.differences()) == []


@pytest.mark.parametrize(
    ("column", "text", "color"),
    [
        ("Δ time", "-17% (-20 to -14)", "blue"),
        ("Δ time", "-17%", None),
        ("Δ time", "+4.5% (+1.0 to +8.1)", "orange"),
        ("Δ time", "≈ +4.5% (-1.0 to +10)", "#8e8e8e"),
        ("Δ time", "0.0%", None),
        ("Δ energy", "-17% (-20 to -14)", "blue"),
        ("Δ rate", "-17% (-20 to -14)", "orange"),
        ("Δ rate", "+17% (+14 to +20)", "blue"),
    ],
)
def test_a_change_is_blue_where_it_is_better(column: str, text: str, color: str | None) -> None:
    [table] = [one for one in board("bench-inter")["panels"] if one["title"].startswith("Workloads, ")]
    [override] = [one for one in table["fieldConfig"]["overrides"] if one["matcher"]["options"] == column]
    [mappings] = [one["value"] for one in override["properties"] if one["id"] == "mappings"]
    # Grafana matches the whole text.
    shades = [one["options"] for one in mappings if re.fullmatch(one["options"]["pattern"], text)]
    assert [one["result"]["color"] for one in shades] == ([color] if color else [])


@pytest.mark.parametrize("uid", BOARDS)
def test_a_dashboard_has_the_uid_that_links_name(uid: str) -> None:
    assert board(uid)["uid"] == uid


def test_an_unknown_dashboard_is_named_with_the_nearest() -> None:
    with pytest.raises(BadRequest, match="did you mean 'bench-intra'"):
        board("bench-intr")


def test_panels_are_laid_out_in_the_order_of_reading() -> None:
    made = dashboard(
        "x",
        "X",
        [
            panels.stat("a", "select 1", width=16, height=4),
            panels.stat("b", "select 1", width=8, height=6),
            panels.stat("c", "select 1", width=12, height=3),
            Row("open", [panels.stat("d", "select 1", width=24, height=5)]),
            Row(
                "closed",
                [panels.stat("e", "select 1", width=12, height=5), panels.stat("f", "select 1", width=12, height=5)],
                collapsed=True,
            ),
            Row("last", []),
        ],
    )
    positions = [(p["id"], p["gridPos"]["x"], p["gridPos"]["y"]) for p in made["panels"]]
    assert positions == [(1, 0, 0), (2, 16, 0), (3, 0, 6), (4, 0, 9), (5, 0, 10), (6, 0, 15), (9, 0, 16)]
    assert [(p["id"], p["gridPos"]["x"], p["gridPos"]["y"]) for p in made["panels"][5]["panels"]] == [
        (7, 0, 16),
        (8, 12, 16),
    ]
    assert list(faults(made)) == []


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("select ${run:raw}", ":raw"),
        ("select 1; select 2", "more than one statement"),
        ("select '$nobody', '{}', '{a}'", "nobody"),
        ("select {parts.RANGE}", "{parts.RANGE}"),
        ("select ${nobody:sqlstring}", "nobody"),
    ],
)
def test_a_query_that_will_not_work_is_found(statement: str, fault: str) -> None:
    made = dashboard("x", "X", [panels.timeseries("t", [query(statement, series=True)])])
    assert any(fault in found for found in faults(made))


def test_a_link_with_a_variable_that_there_is_not_is_found() -> None:
    made = dashboard(
        "x", "X", [panels.table("t", [query("select 1")], overrides=[for_name("a", links=[link("t", "${nobody}/x")])])]
    )
    assert list(faults(made)) == ["panel 't': a field names the variable nobody, but there is none"]


def test_a_panel_that_lacks_something_is_found() -> None:
    made = dashboard("x", "X", [panels.stat("one", "select 1"), panels.stat("two", "select 1")])
    for key in ("pluginVersion", "options", "title"):
        broken = copy.deepcopy(made)
        del broken["panels"][0][key]
        assert any(key in fault for fault in faults(broken))
    made["panels"][1]["id"] = 1
    assert list(faults(made)) == ["2 panels have the id 1"]


def test_build_writes_what_check_requires(tmp_path: Path) -> None:
    runner = CliRunner()
    built = runner.invoke(app, ["dashboards", "build", "-o", str(tmp_path)])
    assert built.exit_code == 0
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(BOARDS)
    assert runner.invoke(app, ["dashboards", "check", "-o", str(tmp_path)]).exit_code == 0

    changed = tmp_path / "bench-intra.json"
    content = json.loads(changed.read_text())
    changed.write_text(files.rendered({**content, "title": "Another"}))
    (tmp_path / "bench-gone.json").write_text("{}")
    (tmp_path / "bench-inter.json").unlink()
    checked = runner.invoke(app, ["dashboards", "check", "-o", str(tmp_path), "--json"])
    assert checked.exit_code == 1
    found = json.loads(checked.stdout)["differences"]
    assert any(line.startswith("bench-intra.json:3 ") for line in found)
    assert any(line.startswith("bench-gone.json ") for line in found)
    assert any(line.startswith("bench-inter.json ") for line in found)
    assert runner.invoke(app, ["dashboards", "build", "-o", str(tmp_path)]).exit_code == 0
    assert list(files.differences(tmp_path)) == []
