"""Queries of curves, by run and by workload: over time, over steps, with bands."""

from __future__ import annotations

from hypergauge.dashboards.grafana.choices import ALIGN
from hypergauge.dashboards.grafana.model.fields import by_label, for_regexp
from hypergauge.dashboards.grafana.queries import Json, query

__all__ = [
    "CHOOSE",
    "FIRST_PLACES",
    "MAX_BANDS",
    "MAX_SERIES",
    "RANGE",
    "bands",
    "or_words",
    "run_curves",
    "run_lines",
    "run_places",
    "software_curves",
    "software_places",
    "workload_curve",
    "workload_curves",
    "workload_places",
]

# More curves than this tell nobody anything, and Grafana is told not to draw more: `[dashboards] panel_series_limit`.
MAX_SERIES = 40
# To find where a run is on an axis takes its spans, some 8 ms a run: of more than these a chart would take too long.
_MAX_PLACES = 12
FIRST_PLACES = f"Of more than {_MAX_PLACES} runs the first {_MAX_PLACES}."
# More bands than this hide each other.
MAX_BANDS = 5
CHOOSE = "Nothing to show: choose an experiment, a workload and runs above."
RANGE = "$__timeFrom(), $__timeTo(), $__interval_ms"
# For many lines in one query, of which nobody sees every point.
_COARSE = "$__timeFrom(), $__timeTo(), 2 * $__interval_ms"


def run_curves(
    runs: str, metric: str, *, title: str = "title", scopes: str = "null", align: str = ALIGN, ref: str = "A"
) -> Json:
    """Return the query of a curve for each run, on a common axis of time.

    Parameters
    ----------
    runs, metric
        Arrays in SQL: run ids, and quantities.
    title
        What a curve is called, in SQL.
    scopes, align
        Further arguments of `run_chart`, in SQL.
    """
    return query(
        f"""
        select time, {title} as title, color, stroke, value
        from run_chart({runs}, {metric}, {RANGE}, true, {MAX_SERIES}, {scopes}, false, {align})
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
            select time, title as metric, value, nth
            from run_chart({runs}, {metric}, {RANGE}, true, {MAX_SERIES}, null, false, {ALIGN})
            join run_titles({runs}) using (run)
            """,
            "select time, metric, value",
            f"select $__timeFrom()::timestamptz, '{CHOOSE}', 0, 1",
            "order by time, nth",
        ),
        series=True,
    )


def run_places(runs: str, metric: str, align: str, *, title: str = "title", scopes: str = "null") -> str:
    """Return what gives a curve for each run over steps or epochs, for `parts.by_number`."""
    drawn = f"array(select run_id from chart_lines({runs}, {metric}, {_MAX_PLACES}) where drawn)"
    return f"""
        select extract(epoch from time)::float8 as x, {title} as title, color, stroke, value, nth
        from (select {drawn} as drawn) chosen
        cross join lateral run_chart(drawn, {metric}, null, null, axis_step(drawn, '{align}'), true, {_MAX_PLACES}, {scopes},
                                     false, '{align}')
        join run_titles({runs}) using (run)
    """


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
            workload_curve(f"({workloads})[{n}:{n}]", metric, among=workloads, band=str(n), ref=chr(64 + n))
            for n in range(1, MAX_BANDS + 1)
        ),
        workload_curve(
            f"({workloads})[{MAX_BANDS + 1}:{MAX_SERIES}]",
            metric,
            among=workloads,
            span=_COARSE,
            ref=chr(65 + MAX_BANDS),
        ),
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
    workloads: str,
    metric: str,
    *,
    title: str = "title",
    scopes: str = "null",
    align: str = ALIGN,
    among: str | None = None,
    span: str = RANGE,
    band: str = "",
    ref: str = "A",
) -> Json:
    """Return the query of a curve for each workload, and of its least and greatest sample as the columns of a `band`.

    Their strokes tell them apart from all `among` which they are drawn, in SQL.
    """
    columns = f'low as "low {band}", value, high as "high {band}"' if band else "value"
    return query(
        f"""
        select time, {title} as title, color, stroke, {columns}
        from workload_chart({workloads}, {metric}, {span}, true, {MAX_SERIES}, {scopes}, {align})
        join workload_titles({among or workloads}) using (workload) order by time, nth
        """,
        series=True,
        ref=ref,
    )


def workload_places(workloads: str, metric: str, align: str, *, title: str = "title", scopes: str = "null") -> str:
    """Return what gives a curve for each workload over steps or epochs, for `parts.by_number`."""
    return f"""
        select extract(epoch from time)::float8 as x, {title} as title, color, stroke, value, nth
        from workload_chart({workloads}, {metric}, null, null, axis_step(runs_of({workloads}), '{align}'), true, {MAX_SERIES},
                            {scopes}, '{align}')
        join workload_titles({workloads}) using (workload)
    """


def software_curves(runs: str, keys: str, *, title: str = "title", align: str = ALIGN, ref: str = "A") -> Json:
    """Return the query of a curve of software metrics for each run, on a common axis of time."""
    return query(
        f"""
        select timestamptz '1970-01-01 00:00:00+00' + make_interval(secs => x) as time, {title} as title, color, stroke,
               value
        from software_chart({runs}, {keys}, {align}, p_max_runs => {MAX_SERIES}) join run_titles({runs}) using (run) order by time, nth
        """,
        series=True,
        ref=ref,
    )


def software_places(runs: str, keys: str, *, title: str = "title") -> str:
    """Return what gives a curve of software metrics for each run over steps, for `parts.by_number`."""
    return f"""
        select x, {title} as title, color, stroke, value, nth
        from software_chart({runs}, {keys}, 'step', p_max_runs => {MAX_SERIES}) join run_titles({runs}) using (run)
    """
