"""Parts that several dashboards share: units that follow a variable, notices, tables of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypergauge.dashboards.grafana.choices import ALIGN
from hypergauge.dashboards.grafana.curves import CHOOSE, MAX_BANDS, MAX_SERIES, RANGE, or_words
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, color, for_name, for_regexp, link, values
from hypergauge.dashboards.grafana.model.layout import annotation
from hypergauge.dashboards.grafana.queries import Json, query

__all__ = [
    "CHOOSE",
    "MAX_SERIES",
    "RANGE",
    "STATUS",
    "bar",
    "by_number",
    "notices",
    "or_words",
    "phases",
    "run_notices",
    "run_table",
    "unit_applied",
    "unit_query",
    "workload_notices",
]

# In tables, what stands for the whole where it is empty would stand in each empty cell as well.
NO_WORDS = for_regexp("/.*/", noValue=" ")
ANY_IS_OPEN: list[Json] = [{"type": "regex", "options": {"pattern": ".+", "result": {"text": "open ↗", "index": 0}}}]
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
        What gives ``x``, ``title``, ``color``, ``stroke``, ``value`` and ``nth``.
    x
        What the number is.
    metric
        The quantity whose unit the values have.
    """
    statement = or_words(
        found,
        "select x, title, color, stroke, value",
        f"select 0, 'Nothing to show by {x}', '0', '0', 0, 1",
        "order by nth, x",
    )
    labels = {"fields": ["title", "color", "stroke"], "keepFields": False, "naming": {"asLabels": True}}
    return panels.trend(
        title,
        [query(statement), *([unit_query(metric)] if metric else [])],
        x="x",
        custom={"spanNulls": True, "showPoints": "auto"},
        legend=legend,
        transformations=[
            *([unit_applied()] if metric else []),
            {"id": "partitionByValues", "options": labels},
            {"id": "joinByField", "options": {"byField": "x", "mode": "outer"}},
        ],
        overrides=[*by_label(), for_name("x", displayName=x, unit="none", custom__axisLabel=x)],
        **more,
    )


def bar(color_name: str) -> Json:
    """Return what makes the figures of a table's column bars from 0 on; tables scroll where charts of bars get illegible."""
    gauge = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
    return {"custom__cellOptions": gauge, "min": 0, "color": color(color_name)}


def unit_query(metric: str, *, ref: str = "U") -> Json:
    """Return the query of a quantity's unit, which `unit_applied` gives to the fields of another one."""
    return query(
        f"select grafana_unit(unit) as unit from metrics where quantity = any({metric}) order by origin limit 1",
        ref=ref,
    )


def unit_applied(*, to: str | None = None, ref: str = "U") -> Json:
    """Return the transformation that takes the unit of all numbers, or of those of the query `to`, from a query."""
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
    """Return the call that gives what is to be known before curves of runs are compared."""
    return f"chart_notice({runs}, {metrics}, {MAX_SERIES}, $__timeFrom()::timestamptz, $__timeTo()::timestamptz)"


def workload_notices(workloads: str, metrics: str) -> str:
    """Return the same for workloads."""
    return (
        f"workload_notice({workloads}, {metrics}, {MAX_SERIES}, {MAX_BANDS}, $__timeFrom()::timestamptz, "
        "$__timeTo()::timestamptz)"
    )


def notices(calls: Mapping[str, str], **more: Any) -> Json:
    """Return the panel of what is to be known before curves are compared.

    Parameters
    ----------
    calls
        The chart that it is said of, empty where it is said of all, and the call that gives what is said.
    """
    said = " union all ".join(
        f"select {n} as n, '{chart}' as chart, notices.* from {call} notices"
        for n, (chart, call) in enumerate(calls.items())
    )
    return panels.table(
        "What to know",
        [
            query(
                f"""
                select string_agg(chart, ', ' order by n) as charts, about, notice
                from (select row_number() over () as place, * from ({said}) every) said
                group by about, notice order by min(n), min(place)
                """
            )
        ],
        options={"showHeader": False},
        overrides=[
            for_name("charts", custom__width=80, **{} if len(calls) > 1 else {"custom__hideFrom__viz": True}),
            for_name("about", custom__width=110),
            for_name("notice", custom__wrapText=True),
        ],
        empty="The figures chosen can be compared: the same scopes, the same sources, measured all the time.",
        **more,
    )


def phases(runs: str) -> Json:
    """Return the annotations of phases, on the common axis; of few runs only, since they lie over each other."""
    return annotation("Phases", f"select time, timeend, text from chart_phases({runs}, {ALIGN})")


def firings(runs: str) -> Json:
    """Return the annotations of where rules fired, on the common axis; of few runs only, as `phases`."""
    return annotation("Rules", f"select time, timeend, text, tags from chart_firings({runs}, {ALIGN})", color="orange")


def run_table(runs: str, *, chosen: Mapping[str, str] | None = None, **more: Any) -> Json:
    """Return the table of runs, each with links to its own dashboard and to MLflow.

    Parameters
    ----------
    runs
        An array of run ids in SQL.
    chosen
        Columns that say whether a run is in a part of them, and these parts.
    """
    chosen = chosen or {}
    marks = "".join(
        f"""case when run_id = any({part}) then '✓' else '' end as "{name}", """ for name, part in chosen.items()
    )
    run_link = link(
        "Open the run",
        "/d/bench-run?var-run=${__data.fields.run_id}&from=${__data.fields.from_ms}&to=${__data.fields.to_ms}",
    )
    mlflow_link = link("Open in MLflow", "${mlflow}/#/experiments/0/runs/${__value.raw}", new_tab=True)
    return panels.table(
        "Runs",
        [
            query(
                f"""
                select title as "Run", {marks}status as "Status", seconds as "Duration", started_at as "Started",
                       coverage as "Measured", interval_seconds as "Every",
                       coalesce(array_to_string(listeners, ', '), '') as "Listeners", overhead as "Overhead",
                       case when throttled then 'throttled' when not throttled then 'no' else '' end as "Throttled",
                       host as "Host", devices as "GPUs",
                       case when shared then 'shared' else 'alone' end as "Neighbours", mlflow_run_id as "MLflow",
                       params as "Parameters", coalesce(reason, '') as "Reason",
                       run_id, floor(extract(epoch from started_at) * 1000)::bigint as from_ms,
                       ceil(extract(epoch from coalesce(ended_at, now())) * 1000)::bigint as to_ms
                from run_list left join run_listeners({runs}) measured using (run_id)
                where run_id = any({runs}) order by experiment_id, workload, position, attempt
                """
            )
        ],
        overrides=[
            for_name("Run", links=[run_link], custom__width=200),
            for_name("Status", mappings=STATUS, custom__cellOptions={"type": "color-text"}, custom__width=90),
            for_name("Duration", unit="dthms", custom__width=90),
            for_name("Started", unit="dateTimeAsIso", custom__width=160),
            for_name("Measured", unit="percentunit", decimals=0, custom__width=90),
            for_name("Every", unit="s", decimals=1, custom__width=70),
            for_name("Listeners", custom__width=150),
            for_name("Overhead", unit="percentunit", decimals=1, custom__width=90),
            for_name("Throttled", custom__width=90),
            for_name("Host", custom__width=110),
            for_name("GPUs", custom__width=120),
            for_name("Neighbours", custom__width=100),
            for_name("MLflow", links=[mlflow_link], mappings=ANY_IS_OPEN, custom__width=80),
            NO_WORDS,
            *(for_name(name, custom__width=40) for name in chosen),
            *(for_name(name, custom__hideFrom__viz=True) for name in ("run_id", "from_ms", "to_ms")),
        ],
        empty=CHOOSE,
        **more,
    )
