"""What several dashboards show in the same way: curves of runs, units that follow a variable, notices, tables of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashboards.grafana import panels
from dashboards.grafana.fields import by_label, color, for_name, for_regexp, link, values
from dashboards.grafana.layout import annotation
from dashboards.grafana.queries import Json, query

__all__ = [
    "CHOOSE",
    "MAX_SERIES",
    "RANGE",
    "STATUS",
    "bands",
    "bar",
    "by_number",
    "notices",
    "or_words",
    "phases",
    "run_curves",
    "run_lines",
    "run_notices",
    "run_table",
    "software_curves",
    "unit_applied",
    "unit_query",
    "workload_curve",
    "workload_curves",
    "workload_notices",
]

# More curves than this tell nobody anything, and Grafana is told not to draw more: `[dashboards] panel_series_limit`.
MAX_SERIES = 40
RANGE = "$__timeFrom(), $__timeTo(), $__interval_ms"
# More bands than this hide each other.
MAX_BANDS = 5
CHOOSE = "Nothing to show: choose an experiment, a workload and runs above."
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


def run_curves(runs: str, metric: str, *, title: str = "title", options: str = "", ref: str = "A") -> Json:
    """Return the query of a curve for each run, on the common axis of time that begins with each run.

    Parameters
    ----------
    runs, metric
        Arrays in SQL: run ids, and quantities.
    title
        What a curve is called, in SQL.
    options
        More arguments of `run_chart`.
    """
    return query(
        f"""
        select time, {title} as title, color, stroke, value
        from run_chart({runs}, {metric}, {RANGE}, true, {MAX_SERIES}{options})
        join run_titles({runs}) using (run) order by time, nth
        """,
        series=True,
        ref=ref,
    )


def run_lines(runs: str, metric: str) -> Json:
    """Return the same query for a heat map, whose lines have names alone."""
    return query(
        or_words(
            f"""
            select time, title as metric, value, nth from run_chart({runs}, {metric}, {RANGE}, true, {MAX_SERIES})
            join run_titles({runs}) using (run)
            """,
            "select time, metric, value",
            f"select $__timeFrom()::timestamptz, '{CHOOSE}', 0, 1",
            "order by time, nth",
        ),
        series=True,
    )


def or_words(found: str, wanted: str, words: str, order: str = "") -> str:
    """Return a query that gives one row of words where there are no others, for panels that take no empty answer.

    Parameters
    ----------
    found, words
        What gives the rows, and the one instead.
    wanted, order
        What is taken of them.
    """
    return f"""
        with found as ({found}) {wanted}
        from (select * from found union all {words} where not exists (select from found)) rows {order}
    """


def workload_curves(workloads: str, metric: str) -> list[Json]:
    """Return the queries of a curve for each workload, with a band from its least to its greatest sample for the first ones.

    A band needs a name that its curve can point to, so that each of these workloads has a query of its own; together they
    ask for no more than one query would.
    """
    return [
        *(
            workload_curve(f"({workloads})[{n}:{n}]", metric, band=str(n), ref=chr(64 + n))
            for n in range(1, MAX_BANDS + 1)
        ),
        workload_curve(f"({workloads})[{MAX_BANDS + 1}:{MAX_SERIES}]", metric, ref=chr(65 + MAX_BANDS)),
    ]


def bands() -> list[Json]:
    """Return what makes bands of the answers to `workload_curves`."""
    unseen = {"legend": True, "tooltip": True, "viz": False}
    return [
        *by_label()[:-1],
        for_regexp("/^(low|high) /", custom__lineWidth=0, custom__hideFrom=unseen),
        *(
            for_regexp(f"/^high {n} /", custom__fillBelowTo=f"low {n}", custom__fillOpacity=18)
            for n in range(1, MAX_BANDS + 1)
        ),
        for_regexp("/^low /", displayName="${__field.labels.title}, lowest"),
        for_regexp("/^(value|high) /", displayName="${__field.labels.title}"),
    ]


def workload_curve(
    workloads: str, metric: str, *, title: str = "title", band: str = "", options: str = "", ref: str = "A"
) -> Json:
    """Return the query of a curve for each workload, and of its least and greatest sample as the columns of a `band`."""
    columns = f'low as "low {band}", value, high as "high {band}"' if band else "value"
    return query(
        f"""
        select time, {title} as title, color, stroke, {columns}
        from workload_chart({workloads}, {metric}, {RANGE}, true, {MAX_SERIES}{options})
        join workload_titles({workloads}) using (workload) order by time, nth
        """,
        series=True,
        ref=ref,
    )


def software_curves(runs: str, keys: str, *, title: str = "title", ref: str = "A") -> Json:
    """Return the query of a curve of software metrics for each run, on the common axis of time."""
    return query(
        f"""
        select timestamptz '1970-01-01 00:00:00+00' + make_interval(secs => x) as time, {title} as title, color, stroke,
               value
        from software_chart({runs}, {keys}) join run_titles({runs}) using (run) order by time, nth
        """,
        series=True,
        ref=ref,
    )


def by_number(title: str, found: str, *, x: str, legend: Sequence[str] = (), **more: Any) -> Json:
    """Return curves over a number, such as the step.

    Parameters
    ----------
    found
        What gives ``x``, ``title``, ``color``, ``stroke``, ``value`` and ``nth``.
    x
        What the number is.
    """
    labels = {"fields": ["title", "color", "stroke"], "keepFields": False, "naming": {"asLabels": True}}
    statement = or_words(
        found, "select x, title, color, stroke, value", f"select 0, '{CHOOSE}', '0', '0', 0, 1", "order by nth, x"
    )
    return panels.trend(
        title,
        [query(statement)],
        x="x",
        custom={"spanNulls": True, "showPoints": "auto"},
        legend=legend,
        transformations=[
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
    return query(f"select grafana_unit(unit) as unit from metrics where quantity = any({metric}) limit 1", ref=ref)


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


def notices(statement: str, **more: Any) -> Json:
    """Return the panel of what is to be known before curves are compared."""
    return panels.table(
        "What to know",
        [query(statement)],
        options={"showHeader": False},
        overrides=[
            for_name("chart", custom__width=60),
            for_name("about", custom__width=110),
            for_name("notice", custom__wrapText=True),
        ],
        empty="The figures chosen can be compared: the same scopes, the same sources, measured all the time.",
        **more,
    )


def phases(runs: str) -> Json:
    """Return the annotations of phases, on the common axis; of few runs only, since they lie over each other."""
    return annotation("Phases", f"select time, timeend, text from chart_phases({runs})")


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
                       coverage as "Measured", host as "Host", devices as "GPUs",
                       case when shared then 'shared' else 'alone' end as "Neighbours", mlflow_run_id as "MLflow",
                       params as "Parameters", coalesce(reason, '') as "Reason",
                       run_id, floor(extract(epoch from started_at) * 1000)::bigint as from_ms,
                       ceil(extract(epoch from coalesce(ended_at, now())) * 1000)::bigint as to_ms
                from run_list where run_id = any({runs}) order by experiment_id, workload, position, attempt
                """
            )
        ],
        overrides=[
            for_name("Run", links=[run_link], custom__width=200),
            for_name("Status", mappings=STATUS, custom__cellOptions={"type": "color-text"}, custom__width=90),
            for_name("Duration", unit="dthms", custom__width=90),
            for_name("Started", unit="dateTimeAsIso", custom__width=160),
            for_name("Measured", unit="percentunit", decimals=0, custom__width=90),
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
