"""The tests' fake of Grafana: variables and macros as in Grafana."""

from __future__ import annotations

import pytest

from benchmarks.support import grafana

SPAN = grafana.Span(1_763_752_000.5, 1_763_755_600)
VARIABLES = {"run": {"multi": True, "includeAll": True}, "one": {"multi": False}}


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("ARRAY[${run:sqlstring}]", ["a", "b"], "ARRAY['a','b']"),
        ("ARRAY[${run:sqlstring}]", ["it's"], "ARRAY['it''s']"),
        ("ARRAY[${run:sqlstring}]", [], "ARRAY[]"),
        ("ARRAY[${run:sqlstring}]", "", "ARRAY['']"),  # no choices
        ("in ($run)", ["a", "b"], "in ('a','b')"),
        ("any('{${run:csv}}')", ["1", "2"], "any('{1,2}')"),
        ("'$one'", "it's", "'it''s'"),
        ("[[run:csv]] $runs $$ $1", ["1"], "1 $runs $$ $1"),
    ],
)
def test_variables_are_put_in(text: str, value: grafana.Value, expected: str) -> None:
    assert grafana.interpolated(text, {"run": value, "one": value}, VARIABLES) == expected


def test_a_query_holds_no_raw_variable() -> None:
    with pytest.raises(ValueError, match="'raw' is a format"):
        grafana.interpolated("${run:raw}", {"run": ["a"]}, VARIABLES)


@pytest.mark.parametrize(
    ("macro", "expected"),
    [
        ("$__timeFrom()", "'2025-11-21T19:06:40.5Z'"),
        ("$__timeTo()::timestamptz", "'2025-11-21T20:06:40Z'::timestamptz"),
        ("$__timeFilter(x.time)", "x.time BETWEEN '2025-11-21T19:06:40.5Z' AND '2025-11-21T20:06:40Z'"),
        ("$__unixEpochFrom()", "1763752000"),
        ("$__time(t)", 't AS "time"'),
    ],
)
def test_macros_are_expanded(macro: str, expected: str) -> None:
    assert grafana.expanded(macro, SPAN) == expected


@pytest.mark.parametrize(
    "macro", ["$__timeFilter()", "$__timeGroup(t, 1m)", "$__timeFrm()", "$__interval", "${run:sqlstring}"]
)
def test_what_cannot_be_expanded_is_an_error(macro: str) -> None:
    with pytest.raises(ValueError, match=r"unknown macro|is left in the query"):
        grafana.expanded(macro, SPAN)


@pytest.mark.parametrize(
    ("seconds", "panel", "expected"),
    [
        (60, {"gridPos": {"w": 24}}, 1000),  # never less than a second
        (3600, {"gridPos": {"w": 24}}, 2000),
        (3600, {"gridPos": {"w": 8}}, 5000),
        (6 * 3600, {"gridPos": {"w": 24}, "maxDataPoints": 300}, 60_000),
        (7 * 86_400, {"gridPos": {"w": 24}}, 300_000),
    ],
)
def test_points_are_as_far_from_each_other_as_fits_the_panel(
    seconds: float, panel: grafana.Json, expected: int
) -> None:
    assert grafana.Span(0, seconds).interval(panel) == expected


def test_a_repeated_panel_queries_once_for_each_value() -> None:
    target = {"refId": "A", "format": "table", "rawSql": "${run:sqlstring} $__interval_ms"}
    panel = {"id": 2, "type": "stat", "gridPos": {"w": 24}, "targets": [target]}
    board = {
        "uid": "u",
        "panels": [
            {"id": 1, "type": "row", "repeat": "run"},
            panel,
            {"id": 4, "type": "row"},
            {**panel, "id": 3, "repeat": "one"},
        ],
        "templating": {"list": [{"name": name, **more} for name, more in VARIABLES.items()]},
    }
    found = grafana.queries(board, {"run": ["a", "b"], "one": "x"}, SPAN)
    assert [(query.panel["id"], query.sql) for query in found] == [
        (2, "'a' 2000"),
        (2, "'b' 2000"),
        (3, "'a','b' 2000"),
    ]
