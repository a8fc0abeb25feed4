"""Panels of states and ratios over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypergauge.dashboards.grafana.curves import broken_at_gaps, or_placeholder
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import for_name, partition
from hypergauge.dashboards.grafana.queries import Json, literals, query
from hypergauge.dashboards.palette import COLORS, LIGHTER

__all__ = ["colored_by_name", "power_heatmap", "ratio_heatmap", "states"]


def states(
    title: str, rows: str, *, line: str, state: str, text: str | None = None, links: Sequence[Json] = (), **more: Any
) -> Json:
    """Return a timeline of ``time``, ``ended``, `line`, `state` and ``color``, an index of `COLORS` and then of `LIGHTER`.

    Parameters
    ----------
    rows
        SQL relation.
    line, state
        Columns of the line's name and of the text on it.
    text
        Column of the text, where `state` is an id for links.
    """
    texts = f", {text} as text" if text else ""
    colored = {
        "configRefId": "C",
        "mappings": [
            {"fieldName": "value", "handlerKey": "mappings.value"},
            {"fieldName": "color", "handlerKey": "mappings.color"},
            *([{"fieldName": "text", "handlerKey": "mappings.text"}] if text else []),
        ],
        "applyTo": {"id": "byName", "options": state},
    }
    return panels.state_timeline(
        title,
        [
            query(f"select time, ended, {line}, {state} from {rows}"),
            query(
                f"select distinct {state} as value{texts}, ({literals((*COLORS, *LIGHTER))})[color::integer + 1] as color from {rows}",
                ref="C",
            ),
        ],
        transformations=[
            {"id": "configFromData", "options": colored},
            partition(line),
        ],
        overrides=[
            for_name(state, displayName=f"${{__field.labels.{line}}}", **({"links": list(links)} if links else {}))
        ],
        legend=False,
        **more,
    )


def ratio_heatmap(title: str, rows: str, *, empty: str, **more: Any) -> Json:
    """Return a heat map of ratios, 0 to 1, from a query of ``time``, ``metric`` (the row's name) and ``value``.

    `empty` becomes the name of a row without values, because a heat map shows no other text; 24 letters fit.
    """
    # Two cells, since Grafana derives the width from their distance. Values below 0 are not drawn.
    words = f"select at, '{empty}', -1 from unnest(array[$__timeFrom()::timestamptz, $__timeTo()::timestamptz]) at"
    return panels.heatmap(
        title,
        [query(or_placeholder(rows, "select time, metric, value", words, "order by time"), series=True)],
        unit="percentunit",
        ends=(0, 1),
        scheme="Viridis",  # its 0 differs from an empty cell in both themes
        options={
            "filterValues": {"le": -1},  # draw 0
            "yAxis": {"axisPlacement": "left", "axisWidth": 150, "reverse": True},
        },
        transformations=[panels.KEEP_FIELDS],
        points=240,
        width=24,
        **more,
    )


def power_heatmap(title: str, rows: str, *, empty: str, **more: Any) -> Json:
    """Return a heat map of powers of ten; see `ratio_heatmap`. The first and the last color are those of the data."""
    words = f"select at, '{empty}', -1e31 from unnest(array[$__timeFrom()::timestamptz, $__timeTo()::timestamptz]) at"
    made = panels.heatmap(
        title,
        [query(or_placeholder(rows, "select time, metric, value", words, "order by time, metric"), series=True)],
        unit="short",
        ends=(0, 1),
        options={"yAxis": {"axisPlacement": "left", "axisWidth": 220, "reverse": True}},
        transformations=[panels.KEEP_FIELDS],
        points=240,
        width=24,
        **more,
    )
    colors = {key: value for key, value in made["options"]["color"].items() if key not in ("min", "max")}
    return {**made, "options": {**made["options"], "color": colors}}


def colored_by_name(rows: str, name: str = "metric") -> Json:
    """Return the query of curves with colors in the order of their names; see `fields.by_label`.

    Parameters
    ----------
    rows
        Query of ``time``, `name` and ``value``.
    """
    count = len(COLORS)
    named = f"""
        select time, {name} as title, ((nth - 1) % {count})::text as color, ((nth - 1) / {count} % 3)::text as stroke, value
        from (select *, dense_rank() over (order by {name}) as nth from ({rows}) found) named order by time, nth
    """
    return query(broken_at_gaps(named, "title", "color", "stroke"), series=True)
