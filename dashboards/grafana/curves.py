"""Queries of curves, by run and by workload: over time, over steps, with bands.

Curves of runs are tables, which `parts.drawn` splits: so the order of the rows is that of the curves, and runs need not share their
times.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.dashboards.grafana.choices import ALIGN
from hypergauge.dashboards.grafana.model.fields import GRAY, by_label, color, for_name, for_regexp
from hypergauge.dashboards.grafana.queries import Json, query

__all__ = [
    "CHOOSE",
    "FIRST_RUNS",
    "MANY",
    "MAX_BANDS",
    "MAX_SERIES",
    "RANGE",
    "SHARED",
    "bands",
    "broken_at_gaps",
    "by_run",
    "or_placeholder",
    "run_curve",
    "run_curves",
    "run_lines",
    "run_points",
    "software_curves",
    "software_points",
    "workload_curve",
    "workload_curves",
    "workload_points",
]

# More curves are unreadable; Grafana has the same limit: `[dashboards] panel_series_limit`.
MAX_SERIES = 40
# More curves than this are gray, beside their median and the band of most of them.
MANY = 12
# An axis of steps reads a run's spans, some 8 ms a run: 12 runs take 0.1 s.
_MAX_RUNS = 12
FIRST_RUNS = f"The first {_MAX_RUNS} runs."
# More bands hide each other.
MAX_BANDS = 5
SHARED = "Thin: other runs used the GPU at that time."
CHOOSE = "No data: choose an experiment, a workload and runs."
RANGE = "$__timeFrom(), $__timeTo(), $__interval_ms"
# A quarter of the points, for many curves in one query.
_COARSE = "$__timeFrom(), $__timeTo(), 4 * $__interval_ms"


def broken_at_gaps(rows: str, *columns: str, values: Sequence[str] = ("value",), order: str | None = None) -> str:
    """Return the query of curves with a point without a value in each gap, where the line ends: Grafana joins all others.

    Parameters
    ----------
    rows
        Query of ``time``, the columns and the values.
    columns
        Names of a curve.
    values
        Columns of its values.
    order
        Column of the curves' order, for a table that the panel splits. Without it, the rows are a series, whose curves share their
        times: a time of one curve is not in a gap.
    """
    names, numbers, none = ", ".join(columns), ", ".join(values), ", ".join("null" for _ in values)
    if order is None:
        return f"""
            with points as materialized ({rows})
            select time, {names}, {numbers} from points
            union all
            select gap, {names}, {none} from (select {names} from points limit 1) one
            cross join chart_gaps(array(select time from points)) gap
            order by time
        """
    each = f"{names}, {order}"
    return f"""
        with points as materialized ({rows})
        select time, {names}, {numbers}
        from (select time, {each}, {numbers} from points
              union all
              select gap, {each}, {none} from (select {each}, array_agg(time) as times from points group by {each}) curves
              cross join lateral chart_gaps(times) gap) drawn
        order by {order}, time
    """


def run_curves(runs: str, metric: str) -> list[Json]:
    """Return the queries of a curve for each run on the common time axis, and of the median and band of more than `MANY`."""
    return [
        run_curve(runs, metric),
        query(
            f"select time, low as p10, median, high as p90 from run_band({runs}, {metric}, {_range(runs)}, {MAX_SERIES}, {ALIGN}, {MANY})",
            ref="M",
        ),
    ]


def run_curve(
    runs: str, metric: str, *, title: str = "title", scopes: str = "null", align: str = ALIGN, ref: str = "A"
) -> Json:
    """Return the query of a curve for each run on a common time axis, in parts: `shared` while other runs used its GPU.

    Parameters
    ----------
    runs, metric
        SQL arrays of run ids and quantities.
    title
        SQL expression of a curve's name.
    scopes, align
        Further SQL arguments of `run_chart`.
    """
    rows = f"""
        with shared as materialized (select * from chart_shared({runs}, {align}))
        select c.time, {title} as title, color, stroke,
               case when scope <> 'device' then ''
                    else coalesce((select case when s.whole then 'whole' else 'part' end from shared s
                                   where s.run = c.run and c.time >= s.since and c.time < s.until limit 1), '') end as shared,
               value, nth
        from run_chart({runs}, {metric}, {_range(runs)}, true, {MAX_SERIES}, {scopes}, false, {align}) c
        join curve_titles({runs}, {metric}, {MANY}) using (run)
    """
    return query(broken_at_gaps(rows, "title", "color", "stroke", "shared", order="nth"), ref=ref)


def _range(runs: str) -> str:
    """Return the SQL arguments of a range, with half the points for many runs."""
    return f"$__timeFrom(), $__timeTo(), $__interval_ms * case when cardinality({runs}) > {MANY} then 2 else 1 end"


def by_run() -> list[Json]:
    """Return the overrides that draw the results of `run_curves`: thin while other runs used the GPU, else of double width."""
    unseen = {"legend": True, "tooltip": False, "viz": False}
    return [
        for_regexp('/shared="(part|whole)"/', custom__lineWidth=1),
        for_regexp('/shared="part"/', custom__hideFrom=unseen),
        *by_label(),
        for_name("median", displayName="median", color=color("text"), custom__lineWidth=3),
        for_name("p10", custom__lineWidth=0, custom__hideFrom=unseen),
        for_name(
            "p90", displayName="10th to 90th percentile", color=color(GRAY), custom__lineWidth=0,
            custom__fillBelowTo="p10", custom__fillOpacity=25,
        ),
    ]  # fmt: skip


def run_lines(runs: str, metric: str) -> Json:
    """Return the query for a heat map with a row for each run, the highest mean on top, and an empty one without values.

    Runs with values of a whole GPU or host, which are marked, come after those with their own.
    """
    # An empty row has a time of the others: Grafana derives the width of all cells from the distances of times.
    return query(
        or_placeholder(
            f"""
            with points as materialized (
                select run, time, value from run_chart({runs}, {metric}, {RANGE}, true, {MAX_SERIES}, null, false, {ALIGN})
            )
            select coalesce(time, (select min(time) from points)) as time, concat_ws(' ', title, shared_mark(scope)) as title, value,
                   dense_rank() over (order by shared_mark(scope) is not null, mean desc nulls last, nth) as line
            from run_titles({runs}) left join points using (run)
            left join (select title, mean, scope from run_values({runs}, {metric})) summary using (title)
            where time is not null or exists (select from points) and cardinality({runs}) <= {MAX_SERIES}
            """,
            'select time, title, value as "Value"',  # Grafana adds any other name to that of the row
            f"select $__timeFrom()::timestamptz, '{CHOOSE}', 0, 1",
            "order by line, time",
        )
    )


def run_points(runs: str, metric: str, align: str, *, title: str = "title", scopes: str = "null") -> str:
    """Return the rows of a curve for each run over steps or epochs, for `parts.by_number`."""
    drawn = f"array(select run_id from chart_lines({runs}, {metric}, {_MAX_RUNS}) where drawn)"
    return f"""
        select extract(epoch from time)::float8 as x, {title} as title, color, stroke, value, nth
        from (select {drawn} as drawn) chosen
        cross join lateral run_chart(drawn, {metric}, null, null, axis_step(drawn, '{align}'), true, {_MAX_RUNS}, {scopes},
                                     false, '{align}')
        join run_titles({runs}) using (run)
    """


def or_placeholder(found: str, wanted: str, words: str, order: str = "") -> str:
    """Return a query with one placeholder row for an empty result, for panels that need a row.

    Parameters
    ----------
    found, words
        Queries of the rows and of the placeholder.
    wanted, order
        The ``select`` and ``order by`` applied to them.
    """
    return f"""
        with found as ( {found} ) {wanted}
        from (select * from found union all {words} where not exists (select from found)) rows {order}
    """


def workload_curves(workloads: str, metric: str) -> list[Json]:
    """Return the queries of a curve for each workload; the first ones have a band of minimum and maximum.

    A band needs a name that its curve can refer to, so each of these workloads has its own query. Together they read as
    much as one query would.
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
    """Return the overrides that draw bands from the results of `workload_curves`."""
    unseen = {"legend": True, "tooltip": True, "viz": False}
    return [
        *by_label()[:-1],
        for_regexp("/^(low|high) /", custom__lineWidth=0, custom__hideFrom=unseen),
        *(
            for_regexp(f"/^high {n} /", custom__fillBelowTo=f"low {n}", custom__fillOpacity=18)
            for n in range(1, MAX_BANDS + 1)
        ),
        for_regexp("/^low /", displayName="${__field.labels.title}, minimum"),
        for_regexp("/^high /", displayName="${__field.labels.title}, maximum"),
        for_regexp("/^value /", displayName="${__field.labels.title}"),
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
    """Return the query of a curve for each workload, with minimum and maximum as the columns of a `band`.

    Colors and strokes are unique in `among`, an SQL array of workloads.
    """
    columns = f'low as "low {band}", value, high as "high {band}"' if band else "value"
    rows = f"""
        select time, {title} as title, color, stroke, {columns}
        from workload_chart({workloads}, {metric}, {span}, true, {MAX_SERIES}, {scopes}, {align})
        join workload_titles({among or workloads}) using (workload) order by time, nth
    """
    values = (f'"low {band}"', "value", f'"high {band}"') if band else ("value",)
    return query(broken_at_gaps(rows, "title", "color", "stroke", values=values), series=True, ref=ref)


def workload_points(workloads: str, metric: str, align: str, *, title: str = "title", scopes: str = "null") -> str:
    """Return the rows of a curve for each workload over steps or epochs, for `parts.by_number`."""
    return f"""
        select extract(epoch from time)::float8 as x, {title} as title, color, stroke, value, nth
        from workload_chart({workloads}, {metric}, null, null, axis_step(runs_of({workloads}), '{align}'), true, {MAX_SERIES},
                            {scopes}, '{align}')
        join workload_titles({workloads}) using (workload)
    """


def software_curves(runs: str, keys: str, *, title: str = "title", align: str = ALIGN, ref: str = "A") -> Json:
    """Return the query of a software metric's curve for each run on a common time axis."""
    return query(
        f"""
        select timestamptz '1970-01-01 00:00:00+00' + make_interval(secs => x) as time, {title} as title, color, stroke,
               value
        from software_chart({runs}, {keys}, {align}, p_max_runs => {MAX_SERIES})
        join curve_titles({runs}, {keys}, {MANY}) using (run) order by nth, time
        """,
        ref=ref,
    )


def software_points(runs: str, keys: str, *, title: str = "title") -> str:
    """Return the rows of a software metric's curve for each run over steps, for `parts.by_number`."""
    return f"""
        select x, {title} as title, color, stroke, value, nth
        from software_chart({runs}, {keys}, 'step', p_max_runs => {MAX_SERIES}) join curve_titles({runs}, {keys}, {MANY}) using (run)
    """
