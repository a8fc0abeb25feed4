"""Panels of states over time."""

from __future__ import annotations

from typing import Any

from hypergauge.dashboards.grafana.curves import or_words
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import COLORS, for_name
from hypergauge.dashboards.grafana.queries import Json, literals, query

__all__ = ["named", "shares", "states"]


def states(title: str, rows: str, *, line: str, state: str, **more: Any) -> Json:
    """Return what was when, from rows of ``time``, ``ended``, `line`, `state` and ``color``, a number of `COLORS`.

    Parameters
    ----------
    rows
        A relation in SQL.
    line, state
        The columns that say on which line a row is, and what stands there.
    """
    by_line = {"fields": [line], "keepFields": False, "naming": {"asLabels": True}}
    colored = {
        "configRefId": "C",
        "mappings": [
            {"fieldName": "value", "handlerKey": "mappings.value"},
            {"fieldName": "color", "handlerKey": "mappings.color"},
        ],
        "applyTo": {"id": "byName", "options": state},
    }
    return panels.state_timeline(
        title,
        [
            query(f"select time, ended, {line}, {state} from {rows}"),
            query(
                f"select distinct {state} as value, ({literals(COLORS)})[color::integer + 1] as color from {rows}",
                ref="C",
            ),
        ],
        transformations=[
            {"id": "configFromData", "options": colored},
            {"id": "partitionByValues", "options": by_line},
        ],
        overrides=[for_name(state, displayName=f"${{__field.labels.{line}}}")],
        options={"legend": {"showLegend": False, "displayMode": "list", "placement": "bottom"}},
        **more,
    )


def shares(title: str, rows: str, *, empty: str, **more: Any) -> Json:
    """Return how busy what was when, from 0 to 1, from a query of ``time``, ``metric`` (its line) and ``value``.

    Where there is nothing, `empty` is the name of a line, for heat maps say no words of ours else: some 24 letters are seen.
    """
    # Of a single cell Grafana cannot tell the width; what is below 0 is not drawn.
    words = f"select at, '{empty}', -1 from unnest(array[$__timeFrom()::timestamptz, $__timeTo()::timestamptz]) at"
    return panels.heatmap(
        title,
        [query(or_words(rows, "select time, metric, value", words, "order by time"), series=True)],
        unit="percentunit",
        ends=(0, 1),
        scheme="Blues",
        options={
            "filterValues": {"le": -1},  # 0 is a figure, and to be seen
            "yAxis": {"axisPlacement": "left", "axisWidth": 150, "reverse": True},
        },
        transformations=[panels.ANSWERED],
        points=240,
        width=24,
        **more,
    )


def named(rows: str, name: str = "metric") -> Json:
    """Return the query of curves that have their colours in the order of their names; see `fields.by_label`.

    Parameters
    ----------
    rows
        A query of ``time``, `name` and ``value``.
    """
    count = len(COLORS)
    return query(
        f"""
        select time, {name} as title, ((nth - 1) % {count})::text as color, ((nth - 1) / {count} % 3)::text as stroke, value
        from (select *, dense_rank() over (order by {name}) as nth from ({rows}) found) named order by time, nth
        """,
        series=True,
    )
