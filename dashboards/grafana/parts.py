"""Parts shared by dashboards: units that follow a variable, notices, tables of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypergauge.dashboards.grafana.choices import ALIGN
from hypergauge.dashboards.grafana.curves import CHOOSE, MAX_BANDS, MAX_SERIES, RANGE, or_placeholder
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import (
    by_label,
    color,
    for_name,
    for_regexp,
    hidden,
    link,
    partition,
    values,
)
from hypergauge.dashboards.grafana.model.layout import annotation
from hypergauge.dashboards.grafana.queries import Json, literal, query

__all__ = [
    "CHOOSE",
    "MAX_SERIES",
    "RANGE",
    "STATUS",
    "bar",
    "by_number",
    "drawn",
    "failures",
    "firings",
    "in_unit_of",
    "notices",
    "or_placeholder",
    "phases",
    "run_link",
    "run_notices",
    "run_table",
    "split",
    "unit_applied",
    "unit_query",
    "workload_notices",
]

# The text for an empty table would also fill each empty cell.
NO_PLACEHOLDER = for_regexp("/.*/", noValue=" ")
OPEN_LINK: list[Json] = [{"type": "regex", "options": {"pattern": ".+", "result": {"text": "open ↗", "index": 0}}}]
STATUS = values(
    {
        "running": ("running", "blue"),
        "finished": ("finished", "green"),
        "failed": ("failed", "red"),
        "timeout": ("timeout", "red"),
        "stopped": ("stopped", "orange"),
        "pending": ("pending", "text"),
    }
)


def by_number(
    title: str, found: str, *, x: str, metric: str | None = None, legend: Sequence[str] = (), **more: Any
) -> Json:
    """Return curves over a number, such as the step.

    Parameters
    ----------
    found
        Query of ``x``, ``title``, ``color``, ``stroke``, ``value`` and ``nth``.
    x
        Name of the number.
    metric
        Quantity whose unit the values have.
    """
    statement = or_placeholder(
        found,
        "select x, title, color, stroke, value",
        f"select 0, 'No data by {x}', '0', '0', 0, 1",
        "order by nth, x",
    )
    return panels.trend(
        title,
        [query(statement), *([unit_query(metric)] if metric else [])],
        x="x",
        custom={"spanNulls": True, "showPoints": "auto"},
        legend=legend,
        transformations=[
            *([unit_applied()] if metric else []),
            partition("title", "color", "stroke"),
            {"id": "joinByField", "options": {"byField": "x", "mode": "outer"}},
        ],
        overrides=[*by_label(), for_name("x", displayName=x, unit="none", custom__axisLabel=x)],
        **more,
    )


def bar(color_name: str, *, text: bool = True) -> Json:
    """Return options that draw a table's column as bars from 0, with their values as `text`. Unlike bar charts, tables scroll."""
    gauge = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text" if text else "hidden"}
    return {"custom__cellOptions": gauge, "min": 0, "color": color(color_name)}


def in_unit_of(metric: str, *targets: Json) -> Json:
    """Return the queries and transformations of a panel whose values have the unit of `metric`."""
    return {"targets": [*targets, unit_query(metric)], "transformations": [unit_applied()]}


def drawn(*targets: Json, metric: str | None = None) -> Json:
    """Return the queries and transformations of a panel, in the unit of the quantity `metric` if any.

    The first query has curves of runs; see `curves.run_curve`.
    """
    made = in_unit_of(metric, *targets) if metric else {"targets": list(targets), "transformations": []}
    return {**made, "transformations": [*made["transformations"], split(targets[0]["refId"])]}


def split(ref: str) -> Json:
    """Return the transformation that makes curves of the rows of a query."""
    return {**partition("title", "color", "stroke", "shared"), "filter": {"id": "byRefId", "options": ref}}


def unit_query(metric: str, *, ref: str = "U") -> Json:
    """Return the query of a quantity's unit, for `unit_applied`."""
    return query(
        f"select grafana_unit(unit) as unit from metrics where quantity = any({metric}) order by origin limit 1",
        ref=ref,
    )


def unit_applied(*, to: str | None = None, ref: str = "U") -> Json:
    """Return the transformation that applies the unit of a query to all numbers, or to those of the query `to`."""
    matcher: Json = {"id": "byFrameRefID", "options": to} if to else {"id": "byType", "options": "number"}
    return {
        "id": "configFromData",
        "options": {
            "configRefId": ref,
            "mappings": [{"fieldName": "unit", "handlerKey": "unit"}],
            "applyTo": matcher,
        },
    }


def run_notices(runs: str, metrics: str) -> str:
    """Return the SQL call for the notices on curves of runs."""
    return f"chart_notice({runs}, {metrics}, {MAX_SERIES}, $__timeFrom()::timestamptz, $__timeTo()::timestamptz)"


def workload_notices(workloads: str, metrics: str) -> str:
    """Return the SQL call for the notices on curves of workloads."""
    return (
        f"workload_notice({workloads}, {metrics}, {MAX_SERIES}, {MAX_BANDS}, $__timeFrom()::timestamptz, "
        "$__timeTo()::timestamptz)"
    )


def notices(
    calls: Mapping[str, str], empty: str = "Comparable: same scopes, same sources, complete data.", **more: Any
) -> Json:
    """Return the panel of notices on charts.

    Parameters
    ----------
    calls
        The SQL call by the name of its chart; the name is empty if there is one chart.
    empty
        Text in place of no notice.
    """
    every = " union all ".join(
        f"select {n} as n, '{chart}' as chart, notices.* from {call} notices"
        for n, (chart, call) in enumerate(calls.items())
    )
    return panels.table(
        "Notices",
        # Grafana shows a table without rows as an empty one.
        or_placeholder(
            f"""
            select string_agg(chart, ', ' order by n) as charts, severity, replace(code, '_', ' ') as about,
                   notice_text(code, runs, "values") as notice, min(n) as chart, min(nth) as nth
            from (select row_number() over () as nth, * from ({every}) every) numbered
            group by code, severity, runs, "values"
            """,
            "select charts, severity, about, notice",
            f"select '', '', '', {literal(empty)}, 0, 0",
            "order by chart, nth",
        ),
        options={"showHeader": False},
        overrides=[
            NO_PLACEHOLDER,
            for_name("charts", custom__width=80, **{} if len(calls) > 1 else {"custom__hideFrom__viz": True}),
            for_name("severity", custom__width=80),
            for_name("about", custom__width=170),
            for_name("notice", custom__wrapText=True),
        ],
        empty=empty,
        **more,
    )


def run_link(title: str, *, until: str = "${__data.fields.to_ms}") -> Json:
    """Return a link from a table's row to the dashboard of its run, by the columns `run_id`, `from_ms` and `to_ms`."""
    return link(title, f"/d/bench-run?var-run=${{__data.fields.run_id}}&from=${{__data.fields.from_ms}}&to={until}")


def phases(runs: str) -> Json:
    """Return the annotations of phases on the common axis; of a few runs only, because they overlap."""
    return annotation("Phases", f"select time, timeend, text from chart_phases({runs}, {ALIGN})", hidden=True)


def failures(runs: str) -> Json:
    """Return the annotations of runs that ended early, on the common axis."""
    return annotation("Failures", f"select time, text from chart_failures({runs}, {ALIGN})", color="red", hidden=True)


def firings(runs: str) -> Json:
    """Return the annotations of rule firings on the common axis; of a few runs only, like `phases`."""
    return annotation(
        "Rules", f"select time, timeend, text, tags from chart_firings({runs}, {ALIGN})", color="orange", hidden=True
    )


def run_table(runs: str, *, chosen: Mapping[str, str] | None = None, **more: Any) -> Json:
    """Return the table of runs, with links to their dashboards and to MLflow.

    Parameters
    ----------
    runs
        SQL array of run ids.
    chosen
        Columns that mark the runs in a subset, and the SQL arrays of these subsets.
    """
    chosen = chosen or {}
    marks = "".join(
        f"""case when run_id = any({part}) then '✓' else '' end as "{name}", """ for name, part in chosen.items()
    )
    mlflow_link = link("Open in MLflow", "${mlflow}/#/experiments/0/runs/${__value.raw}", new_tab=True)
    return panels.table(
        "Runs",
        f"""
            select title as "Run", {marks}status as "Status", coalesce(reason, '') as "Reason", seconds as "Duration",
                   started_at as "Started", host as "Host", coalesce(d.devices, 'none') as "GPUs",
                   case when shared then 'shared' else 'exclusive' end as "GPU use",
                   coalesce(array_to_string(listeners, ', '), '') as "Exporters", interval_seconds as "Every",
                   coverage as "Measured", overhead as "Overhead",
                   case when throttled then 'throttled' when not throttled then 'no' else '' end as "Throttled",
                   mlflow_run_id as "MLflow", params as "Parameters", coalesce(d.uuids, '') as "GPU UUIDs",
                   run_id, floor(extract(epoch from started_at) * 1000)::bigint as from_ms,
                   ceil(extract(epoch from coalesce(ended_at, now())) * 1000)::bigint as to_ms
            from run_list left join run_listeners({runs}) measured using (run_id)
                 left join device_labels({runs}) d using (run_id)
            where run_id = any({runs}) order by experiment_id, workload, position, attempt
        """,
        overrides=[
            for_name("Run", links=[run_link("Open the run")], custom__width=190),
            for_name("Status", mappings=STATUS, custom__cellOptions={"type": "color-text"}, custom__width=90),
            for_name("Reason", custom__width=150),
            for_name("Duration", unit="dthms", custom__width=90),
            for_name("Started", unit="dateTimeAsIso", custom__width=160),
            for_name("Measured", unit="percentunit", decimals=0, custom__width=90),
            for_name("Every", unit="s", decimals=1, custom__width=70),
            for_name("Exporters", custom__width=150),
            for_name("Overhead", unit="percentunit", decimals=1, custom__width=90),
            for_name("Throttled", custom__width=90),
            for_name("Host", custom__width=110),
            for_name("GPUs", custom__width=170),
            for_name("GPU use", custom__width=100),
            for_name("MLflow", links=[mlflow_link], mappings=OPEN_LINK, custom__width=80),
            NO_PLACEHOLDER,
            *(for_name(name, custom__width=40) for name in chosen),
            *hidden("run_id", "from_ms", "to_ms"),
        ],
        empty=CHOOSE,
        **more,
    )
